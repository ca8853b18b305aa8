#include "indexed_dataset/order/blends/data_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <stdexcept>

#include "indexed_dataset/order/blends/blend_sizes.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::string error_of_list(const std::vector<std::string>& values) {
  return error_of([&] { parse_blend(values, "--data-path"); });
}

TEST(DataPaths, ListsAreReadAsMegatronReadsThem) {
  EXPECT_THAT(parse_blend({"a.bin"}, "").prefixes, ElementsAre("a"));
  const Blend weighted = parse_blend({"30", " a ", "7e1", "b"}, "");
  EXPECT_THAT(weighted.prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(weighted.weights, ElementsAre(30, 70));
  // Two prefixes are an even number of values, too.
  EXPECT_THAT(parse_blend({"a", "b"}, "").prefixes, ElementsAre("a", "b"));
  EXPECT_THAT(parse_blend({"a", "b"}, "").weights, IsEmpty());
  EXPECT_THAT(parse_blend({"a", "b", "c"}, "").prefixes, ElementsAre("a", "b", "c"));
  EXPECT_THAT(parse_blend({"1.0", "a"}, "").weights, ElementsAre(1));
  EXPECT_THAT(parse_blend({"2024"}, "").prefixes, ElementsAre("2024"));
}

TEST(DataPaths, GroupsAreReadFromFilesAsBigscienceDoes) {
  TemporaryFolder folder;
  const auto file = [&](const char* name, const std::string& text) {
    write_file_atomically(folder / name, text);
    return (folder / name).string();
  };
  const SplitBlends blends = resolve_data_paths(
      {.train_weighted_split_paths_path = file("train", "\"TRAIN: 1 0:0.9 a, 2 0.0:1 /x/b\"\n"),
       .valid_weighted_split_paths_path =
           file("valid", "\"ONE: 0.1 0.9:0.95 a\" \"TWO: 1 0:1 c, 1 0.5:1 d\"\n")});
  const SplitBlends of_words = resolve_data_paths(
      {.train_weighted_split_paths = {"TRAIN: 1 0:0.9 a, 2 0.0:1 /x/b"},
       .valid_weighted_split_paths = {"ONE: 0.1 0.9:0.95 a", "TWO: 1 0:1 c, 1 0.5:1 d"}});
  EXPECT_EQ(blends.blends, of_words.blends);
  EXPECT_TRUE(blends.has_own_paths);
  const auto error_of_file = [&](const std::string& text) {
    return error_of(
        [&] { resolve_data_paths({.valid_weighted_split_paths_path = file("wrong", text)}); });
  };
  EXPECT_THAT(error_of_file("ONE: 1 0:1 a\n"),
              AllOf(HasSubstr("--valid-weighted-split-paths-path "),
                    HasSubstr("wrong, line 1: each group"), HasSubstr("in double quotes")));
  EXPECT_THAT(error_of_file("\"ONE: 1 0:1 a"), HasSubstr("in double quotes"));
  EXPECT_THAT(error_of_file(" \n"), HasSubstr("names no group"));
  EXPECT_THAT(error_of_file("\"ONE: 1 0:1 a\"\n\n\"TWO: 1 0:2 a\""),
              HasSubstr("wrong, line 3: '0:2' is no range"));
  EXPECT_THAT(error_of_file("\"ONE: 1 0:1 a\"\nTWO"), HasSubstr("wrong, line 2: each group"));
  // Ends of lines of another system, also within a group.
  EXPECT_EQ(resolve_data_paths(
                {.valid_weighted_split_paths_path = file(
                     "crlf", "\"ONE: 0.1 0.9:0.95 a\"\r\n\"TWO: 1 0:1 c,\r\n 1 0.5:1 d\"\r\n")})
                .of(Split::kValid),
            blends.of(Split::kValid));
  EXPECT_THAT(
      error_of([&] {
        resolve_data_paths({.train_weighted_split_paths = {"T: 1 0:1 a"},
                            .train_weighted_split_paths_path = (folder / "train").string()});
      }),
      HasSubstr("--train-weighted-split-paths already names the groups"));
  EXPECT_THAT(
      error_of([&] {
        resolve_data_paths(
            {.data_path = {"a"}, .train_weighted_split_paths_path = (folder / "train").string()});
      }),
      HasSubstr("exclude each other"));
}

// A pipe that nobody writes to would be waited for.
TEST(DataPaths, FilesOfListsMustBeRegularFiles) {
  TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const DataPaths& paths : {DataPaths{.data_args_path = pipe},
                                 {.per_split_data_args_path = pipe},
                                 {.train_weighted_split_paths_path = pipe},
                                 {.data_path = {"a"}, .blend_schedule = pipe}})
    EXPECT_THAT(error_of([&] { resolve_data_paths(paths); }),
                HasSubstr("pipe', which is no regular file"));
}

TEST(DataPaths, ListsThatAreNoneAreErrors) {
  EXPECT_THAT(error_of_list({"1", "a", "2"}),
              HasSubstr("'1' is a number: a weight or a PREFIX is"));
  EXPECT_THAT(error_of_list({"1", "a", "b", "c"}), HasSubstr("only 1 of 2 pairs"));
  EXPECT_THAT(error_of_list({"0", "a", "1", "b"}), HasSubstr("the weight of a is 0"));
  EXPECT_THAT(error_of_list({"-1", "a", "1", "b"}), HasSubstr("must be positive"));
  EXPECT_THAT(error_of_list({"nan", "a", "1", "b"}), HasSubstr("must be positive"));
  EXPECT_THAT(error_of_list({"a", " "}), HasSubstr("empty name"));
}

TEST(DataPaths, FilesHoldTheSameLists) {
  const TemporaryFolder folder;
  const auto list = (folder / "list").string(), splits = (folder / "splits.json").string();
  write_file_atomically(list, "0.5 a\n0.25 b  0.25 c\n");
  const SplitBlends same = resolve_data_paths({.data_args_path = list});
  EXPECT_FALSE(same.has_own_paths);
  EXPECT_THAT(same.prefixes(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(same.of(Split::kTest)[0].weights, ElementsAre(0.5, 0.25, 0.25));

  write_file_atomically(splits, R"({"train": ["1", "a", "3", "b"], "valid": "c", "test": null})");
  const SplitBlends own = resolve_data_paths({.per_split_data_args_path = splits});
  EXPECT_TRUE(own.has_own_paths);
  EXPECT_THAT(own.of(Split::kTrain)[0].weights, ElementsAre(1, 3));
  EXPECT_THAT(own.of(Split::kTrain)[0].shares, ElementsAre(Pair(0, 1), Pair(0, 1)));
  EXPECT_THAT(own.of(Split::kValid)[0].prefixes, ElementsAre("c"));
  EXPECT_THAT(own.of(Split::kTest), IsEmpty());

  write_file_atomically(splits, R"({"train": [1, "a"]})");
  EXPECT_THAT(error_of([&] { resolve_data_paths({.per_split_data_args_path = splits}); }),
              HasSubstr("not a JSON object of lists"));
}

TEST(DataPaths, AByteOrderMarkBeforeAListIsNoPartOfIt) {
  const TemporaryFolder folder;
  const auto list = (folder / "list").string(), groups = (folder / "groups").string();
  write_file_atomically(list,
                        "\xEF\xBB\xBF"
                        "a_text_document\r\n");
  EXPECT_THAT(resolve_data_paths({.data_args_path = list}).prefixes(),
              ElementsAre("a_text_document"));
  write_file_atomically(groups, "\xEF\xBB\xBF\"TRAIN: 1 0:1 a\"");
  EXPECT_THAT(resolve_data_paths({.train_weighted_split_paths_path = groups}).prefixes(),
              ElementsAre("a"));
}

TEST(DataPaths, WeightedSplitPathsHaveNamesAndRanges) {
  const SplitBlends blends = resolve_data_paths(
      {.train_weighted_split_paths = {"TRAIN: 1 0:0.9 a, 2 0.0:1 /x/b"},
       .valid_weighted_split_paths = {"ONE: 0.1 0.9:0.95 a", "TWO: 1 0:1 c, 1 0.5:1 d"}});
  const Blend& train = blends.of(Split::kTrain)[0];
  EXPECT_EQ(train.name, "TRAIN");
  EXPECT_THAT(train.prefixes, ElementsAre("a", "/x/b"));
  EXPECT_THAT(train.weights, ElementsAre(1, 2));
  EXPECT_THAT(train.shares, ElementsAre(Pair(0, 0.9), Pair(0, 1)));
  ASSERT_EQ(blends.of(Split::kValid).size(), 2U);
  EXPECT_THAT(blends.of(Split::kValid)[0].weights, IsEmpty());  // one dataset is not blended
  EXPECT_EQ(blends.of(Split::kValid)[1].name, "TWO");

  const auto error_of_group = [](const std::string& value) {
    return error_of([&] { parse_weighted_split(value, "--train-weighted-split-paths"); });
  };
  EXPECT_THAT(error_of_group("1 a"), AllOf(HasSubstr("no NAME:"), HasSubstr("BEGIN:END")));
  EXPECT_THAT(error_of_group("T: 1 a"), HasSubstr("three words"));
  EXPECT_THAT(error_of_group("T: 1 0.5:0.5 a"), HasSubstr("no range"));
  EXPECT_THAT(error_of_group("T: 1 0:2 a"), HasSubstr("no range"));
  EXPECT_THAT(error_of_group("T: x 0:1 a"), HasSubstr("is not a number"));
  EXPECT_THAT(error_of_group("T:"), HasSubstr("names no dataset"));
}

TEST(DataPaths, OneWayOnly) {
  EXPECT_THAT(error_of([] { resolve_data_paths({.data_path = {"a"}, .train_data_path = {"b"}}); }),
              HasSubstr("--data-path and --train/valid/test-data-path exclude each other"));
  EXPECT_THAT(error_of([] { resolve_data_paths({}); }), HasSubstr("--data-path is required"));
}

class BuildDatasetsTest : public ::testing::Test {
 protected:
  // A dataset of so many documents of 10 tokens.
  std::string make(const char* name, size_t num_documents) {
    write_dataset(folder_ / name, TokenType::kUInt16,
                  std::vector<std::vector<uint16_t>>(num_documents, std::vector<uint16_t>(10, 7)));
    return (folder_ / name).string();
  }
  static SampleOrder order_of(const DataPaths& paths, const std::string& split = "969, 30, 1",
                              int64_t seq_length = 9) {
    SampleOrder order;
    order.blends = resolve_data_paths(paths);
    order.split = split;
    order.seq_length = seq_length;
    return order;
  }
  TemporaryFolder folder_;
};

TEST_F(BuildDatasetsTest, WeightsThatOutrunADatasetNameItAndTheFix) {
  // 40 datasets of tiny weight get one sample each, and lengthen the blend by as many: the first
  // one is asked for half of these beyond its own share.
  std::vector<std::string> values = {"1000", make("large", 3)};
  for (int i = 0; i < 40; ++i) {
    values.insert(values.end(), {"0.001", make(("small" + std::to_string(i)).c_str(), 3)});
  }
  SampleOrder options = order_of({.data_path = values}, "100,0,0", 29);
  const std::string message =
      error_of([&] { build_training_datasets(options, {.train_samples = 100}); });
  EXPECT_THAT(message, HasSubstr("the training blend needs 139 "));
  EXPECT_THAT(message, HasSubstr("samples of dataset 0, " + values[1]));
  EXPECT_THAT(message, HasSubstr("but only 101 were built"));
  EXPECT_THAT(message, HasSubstr("raise --mid-level-dataset-surplus (0.005 now)"));
  options.mid_level_dataset_surplus = 1;
  EXPECT_EQ(build_training_datasets(options, {.train_samples = 100}).train->num_samples(), 140);
}

TEST_F(BuildDatasetsTest, SplitsOfOneBlendShareOneBlendingIndexInMemory) {
  for (const OrderKind order : {OrderKind::kCore, OrderKind::kLegacy}) {
    SampleOrder options =
        order_of({.data_path = {"1", make("a", 100), "3", make("b", 90)}}, "80,10,10");
    options.sample_order = order;
    const TrainingDatasets all = build_training_datasets(
        options, {.train_samples = 50, .valid_samples = 20, .test_samples = 7, .eval_iters = 1});
    const BlendingIndexView& train = *all.train->blending_index();
    for (const Split split : {Split::kValid, Split::kTest}) {
      const BlendingIndexView& index = *all.first(split)->blending_index();
      EXPECT_EQ(index.sample_index.data(), train.sample_index.data());
      const BlendingIndex alone = build_blending_index(std::vector{0.25, 0.75}, index.size());
      for (int64_t k = 0; k < index.size(); ++k) {
        ASSERT_EQ(index.dataset_of(k), alone.view().dataset_of(k));
        ASSERT_EQ(index.sample_index[static_cast<size_t>(k)],
                  alone.sample_index[static_cast<size_t>(k)]);
      }
      EXPECT_EQ(index.counts(2), alone.counts);
    }
  }
}

TEST_F(BuildDatasetsTest, EachGroupHasItsRangeOfSequences) {
  const std::string a = make("a", 100), b = make("b", 50);
  SampleOrder options =
      order_of({.train_weighted_split_paths = {"T: 1 0:0.9 " + a + ", 1 0:1 " + b},
                .valid_weighted_split_paths = {"V1: 1 0.9:1 " + a, "V2: 1 0:0.5 " + b}});
  options.sample_order = OrderKind::kBigscience;
  const TrainingDatasets datasets =
      build_training_datasets(options, {.train_samples = 50, .valid_samples = 5});
  EXPECT_EQ(datasets.train->num_samples(), 50);
  EXPECT_EQ(datasets.readers.size(), 2U);
  ASSERT_EQ(datasets.valid.size(), 2U);
  EXPECT_EQ(datasets.valid[1].name, "V2");
  for (int64_t i = 0; i < 5; ++i) {
    for (const SamplePart& part : datasets.valid[0].dataset.sample_parts(i))
      EXPECT_GE(part.document_idx, 90);
    for (const SamplePart& part : datasets.valid[1].dataset.sample_parts(i))
      EXPECT_LT(part.document_idx, 25);
  }
  EXPECT_THAT(
      error_of([&] { build_training_datasets(options, {.train_samples = 50, .test_samples = 1}); }),
      HasSubstr("nothing was thrown"));
}

// The cyclic sampler shuffles all that a blend has.
TEST_F(BuildDatasetsTest, CyclicBlendsHaveTheSizeOfTheirProgramOrAreRefused) {
  SampleOrder options =
      order_of({.data_path = {"1", make("a", 100), "1", make("b", 90)}}, "100,0,0");
  options.cyclic = CyclicOptions{};
  for (const auto& [name, order] : kOrderKinds) {
    SCOPED_TRACE(name);
    options.sample_order = order;
    if (rules_of(order).precedes_core) {
      EXPECT_THAT(error_of([&] { build_training_datasets(options, {.train_samples = 100}); }),
                  HasSubstr("--dataloader-type cyclic takes the samples of a blend"));
    } else {
      EXPECT_EQ(build_training_datasets(options, {.train_samples = 100}).train->num_samples(),
                order == OrderKind::kCore010 ? 102 : 100);
    }
  }
  options.blends.blends[0][0].weights.clear();
  options.blends.blends[0][0].prefixes.resize(1);
  options.sample_order = OrderKind::kLegacy;
  EXPECT_NO_THROW(build_training_datasets(options, {.train_samples = 100}));
}

// [gpt-neox megatron/data/data_utils.py, build_train_valid_test_data_iterators]
TEST_F(BuildDatasetsTest, NeoxBlendsASingleDatasetOfASplit) {
  for (const OrderKind order : {OrderKind::kCore, OrderKind::kNeox}) {
    SampleOrder options = order_of({.train_data_path = {make("a", 100)}});
    options.sample_order = order;
    const TrainingDatasets datasets = build_training_datasets(options, {.train_samples = 1000});
    EXPECT_EQ(datasets.reports[0].num_asked, order == OrderKind::kNeox ? 1005 : 1000);
  }
}

TEST_F(BuildDatasetsTest, ADatasetWithoutSequencesOfItsSplitIsNamed) {
  const SampleOrder options =
      order_of({.data_path = {"1", make("a", 100), "1", make("tiny", 2)}}, "90,10,0");
  EXPECT_THAT(error_of([&] {
                build_training_datasets(options,
                                        {.train_samples = 5, .valid_samples = 5, .eval_iters = 1});
              }),
              HasSubstr("too little of the 2 documents in " + (folder_ / "tiny").string()));
}

// Their shares would be zeros, and the number of samples of each dataset, too.
TEST(BlendSizes, RefusesWeightsWhoseSumNoNumberHolds) {
  const std::vector<double> weights = {1e308, 1e308};
  for (const auto& [name, kind] : kOrderKinds) {
    try {
      blend_sizes(weights, 100, kind, kDefaultSurplus);
      FAIL() << name;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("the weights of a blend add up to more than a number holds"));
    }
  }
}

}  // namespace
}  // namespace weft
