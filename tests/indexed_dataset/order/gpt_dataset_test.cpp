#include "indexed_dataset/order/samples/gpt_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Token 100*s + k is the k-th of sequence s; documents 1 and 4 are empty.
class GptDatasetTest : public ::testing::Test {
 protected:
  GptDatasetTest() {
    const std::vector<int> lengths = {5, 0, 3, 8, 0, 1, 13, 2, 7, 4};
    std::vector<std::vector<uint16_t>> documents;
    uint16_t sequence_idx = 0;
    for (const int length : lengths) {
      documents.emplace_back(static_cast<size_t>(length));
      std::iota(documents.back().begin(), documents.back().end(),
                static_cast<uint16_t>(100 * sequence_idx));
      if (length > 0) ++sequence_idx;
    }
    write_dataset(prefix(), TokenType::kUInt16, documents);
    reader_ = std::make_shared<DatasetReader>(prefix());
  }
  std::filesystem::path prefix() const { return folder_ / "d"; }
  TrainingDatasets build(const std::string& split, const DatasetTargetSizes& sizes,
                         const std::string& name = "d") const {
    SampleOrder order;
    order.split = split;
    order.seq_length = 4;
    order.blends = resolve_data_paths({.data_path = {(folder_ / name).string()}});
    return build_training_datasets(order, sizes);
  }

  TemporaryFolder folder_;
  std::shared_ptr<const DatasetReader> reader_;
};

TEST_F(GptDatasetTest, SampleIsMadeOfItsParts) {
  // Vector B of gpt_index_test: sample 0 is row 3, from (2, 1) to (2, 5) of document index 2 1 6 0
  // 4 5 3 7 ...
  const GptDataset dataset(reader_, {0, 8}, 12, 4, 1234);
  EXPECT_EQ(dataset.num_samples(), 21);
  std::vector<int32_t> tokens(5);
  dataset.sample(0, tokens.data());
  EXPECT_THAT(tokens, ElementsAre(601, 602, 603, 604, 605));
  EXPECT_THAT(dataset.sample_parts(0), ElementsAre(SamplePart{6, 8, 1, 5}));
  // Sample 1 is row 9, from (5, 0) to (7, 1): sequences 5, 3 and 7, the last in document 9.
  dataset.sample(1, tokens.data());
  EXPECT_THAT(tokens, ElementsAre(500, 501, 300, 700, 701));
  EXPECT_THAT(dataset.sample_parts(1),
              ElementsAre(SamplePart{5, 7, 0, 2}, SamplePart{3, 5, 0, 1}, SamplePart{7, 9, 0, 2}));
}

TEST_F(GptDatasetTest, LengthsThatContradictTheOffsetsAreRefused) {
  {
    std::fstream idx(prefix().string() + ".idx", std::ios::in | std::ios::out | std::ios::binary);
    idx.seekp(34 + 4 * 3);  // the length of sequence 3
    const int32_t length = 1 << 30;
    idx.write(reinterpret_cast<const char*>(&length), sizeof length);
  }
  const auto damaged = std::make_shared<DatasetReader>(prefix());
  EXPECT_THAT(
      error_of([&] {
        GptDataset(damaged, {0, 8}, 12, 4, 1234);
      }),
      HasSubstr("sequence 3 has 1073741824 tokens, which is not what the offsets of it and of "
                "the next one say: the .idx is damaged"));
  EXPECT_EQ(GptDataset(damaged, {4, 8}, 3, 4, 1234).num_samples(), 6) << "where it is sound";
}

// A cache is mapped without reading it, so damage shows when a sample is asked for.
TEST_F(GptDatasetTest, ABlendWhoseIndexIsDamagedNamesIt) {
  const auto blend_of = [this](int16_t dataset_idx, int64_t sample_idx) {
    auto index = std::make_shared<BlendingIndex>();
    index->dataset_index = std::vector<int16_t>{0, dataset_idx};
    index->sample_index = {0, sample_idx};
    std::vector<GptDataset> datasets;
    for (int i = 0; i < 2; ++i) datasets.emplace_back(reader_, SequenceRange{0, 8}, 12, 4, 1234);
    const BlendingIndexView view = index->view();
    return BlendedDataset(std::move(datasets), {.view = view, .memory = std::move(index)});
  };
  EXPECT_EQ(blend_of(1, 20).locate(1).dataset_idx, 1);
  for (const auto& [dataset_idx, sample_idx] :
       std::vector<std::pair<int16_t, int64_t>>{{2, 0}, {-1, 0}, {1, 21}, {1, -1}}) {
    const BlendedDataset blend = blend_of(dataset_idx, sample_idx);
    EXPECT_THAT(error_of([&] { blend.locate(1); }),
                HasSubstr("in the index cache is damaged; move it away"));
  }
  EXPECT_THAT(error_of([&] { blend_of(2, 0).blending_index()->counts(2); }),
              HasSubstr("it has samples of a dataset 2"));
}

TEST_F(GptDatasetTest, NextSampleInTheStreamStartsWithTheLastToken) {
  const GptDataset dataset(reader_, {0, 8}, std::nullopt, 4, 1234);
  std::vector<std::vector<int32_t>> by_row(10, std::vector<int32_t>(5));
  for (int64_t i = 0; i < 10; ++i) {
    dataset.sample(i, by_row[static_cast<size_t>(dataset.index().shuffled(i))].data());
  }
  for (size_t row = 1; row < 10; ++row) EXPECT_EQ(by_row[row].front(), by_row[row - 1].back());
}

TEST_F(GptDatasetTest, PartsAddUpToTheSampleEverywhere) {
  const GptDataset dataset(reader_, {1, 7}, 200, 11, 7);
  std::vector<int32_t> tokens(12);
  for (int64_t i = 0; i < dataset.num_samples(); ++i) {
    std::vector<int32_t> joined;
    for (const SamplePart& part : dataset.sample_parts(i)) {
      EXPECT_GT(part.num_tokens, 0);
      for (int64_t k = 0; k < part.num_tokens; ++k) {
        joined.push_back(static_cast<int32_t>(100 * part.sequence_idx + part.begin_token + k));
      }
    }
    dataset.sample(i, tokens.data());
    EXPECT_EQ(joined, tokens) << "sample " << i;
    for (int64_t begin = 0; begin < 11; ++begin) {
      for (int64_t length = 1; begin + length <= 11; ++length) {
        std::vector<int32_t> inputs(static_cast<size_t>(length)), labels(inputs);
        dataset.row(i, begin, length, inputs.data(), labels.data());
        const auto first = tokens.begin() + begin;
        ASSERT_EQ(inputs, std::vector(first, first + length))
            << "sample " << i << " from " << begin;
        ASSERT_EQ(labels, std::vector(first + 1, first + length + 1))
            << "sample " << i << " from " << begin;
        std::vector<int32_t> in_parts;
        for (const SamplePart& part : dataset.sample_parts(i, begin, begin + length)) {
          ASSERT_GT(part.num_tokens, 0);
          for (int64_t k = 0; k < part.num_tokens; ++k) {
            in_parts.push_back(
                static_cast<int32_t>(100 * part.sequence_idx + part.begin_token + k));
          }
        }
        ASSERT_EQ(in_parts, inputs) << "sample " << i << " from " << begin;
      }
    }
  }
}

TEST_F(GptDatasetTest, ThrowsForSamplesThatAreNotThere) {
  const GptDataset dataset(reader_, {0, 8}, 12, 4, 1234);
  int32_t tokens[5];
  EXPECT_THROW(dataset.sample(21, tokens), std::out_of_range);
  EXPECT_THROW(dataset.sample(-1, tokens), std::out_of_range);
  EXPECT_THROW(dataset.sample_parts(21), std::out_of_range);
}

TEST_F(GptDatasetTest, IsReadByManyThreads) {
  const GptDataset dataset(reader_, {0, 8}, 3000, 4, 1234);
  std::atomic<int> num_wrong = 0;
  const auto read_all = [&] {
    std::vector<int32_t> tokens(5);
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      dataset.sample(i, tokens.data());
      const SamplePart first = dataset.sample_parts(i).front();
      if (tokens[0] != 100 * first.sequence_idx + first.begin_token) ++num_wrong;
    }
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) threads.emplace_back(read_all);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_wrong, 0);
}

TEST(DatasetTargetSizes, FollowMegatron) {
  const auto sizes = dataset_target_sizes(146484375, 0, 288, 1000, 40);
  EXPECT_EQ(sizes.train_iters, 508626);
  EXPECT_EQ(sizes.train_samples, 146484375);
  EXPECT_EQ(sizes.valid_samples, 5863680);
  EXPECT_EQ(sizes.test_samples, 11520);

  const auto by_iters = dataset_target_sizes(std::nullopt, 100, 8, 50, 2);
  EXPECT_EQ(by_iters.train_samples, 800);
  EXPECT_EQ(by_iters.valid_samples, 3 * 2 * 8);
  EXPECT_EQ(by_iters.test_samples, 16);
}

TEST(DatasetTargetSizes, WithoutEvaluationAskForNothing) {
  const auto sizes = dataset_target_sizes(800, 0, 8, 0, 0);
  EXPECT_EQ(sizes.train_iters, 100);
  EXPECT_EQ(sizes.valid_samples, 0);
  EXPECT_EQ(sizes.test_samples, 0);
}

TEST(DatasetTargetSizes, RefuseImpossibleNumbers) {
  const int64_t huge = int64_t{1} << 60;
  EXPECT_THROW(dataset_target_sizes(800, 0, 0, 1, 1), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(800, 0, 8, 0, 1), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(-1, 0, 8, 1, 1), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(std::nullopt, -1, 8, 1, 1), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(800, 0, 8, 1, -1), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(std::nullopt, huge, 100, 1, 0), std::invalid_argument);
  EXPECT_THROW(dataset_target_sizes(800, 0, 8, 1, huge), std::invalid_argument);
}

TEST_F(GptDatasetTest, BuildsEachSplitThatIsWanted) {
  const auto sizes = dataset_target_sizes(12, 0, 2, 4, 1);  // valid 2 x 1 x 2, test 2
  const TrainingDatasets datasets = build("6,1,1", sizes);
  ASSERT_TRUE(datasets.train);
  ASSERT_EQ(datasets.valid.size(), 1U);
  ASSERT_EQ(datasets.test.size(), 1U);
  EXPECT_GE(datasets.train->num_samples(), 12);
  EXPECT_GE(datasets.first(Split::kValid)->num_samples(), 4);
  EXPECT_GE(datasets.first(Split::kTest)->num_samples(), 2);
  for (const SamplePart& part : datasets.first(Split::kValid)->sample_parts(0))
    EXPECT_EQ(part.sequence_idx, 6);
  for (const SamplePart& part : datasets.first(Split::kTest)->sample_parts(0))
    EXPECT_EQ(part.sequence_idx, 7);
}

TEST_F(GptDatasetTest, BuildsNothingWhereNothingIsWanted) {
  const auto sizes = dataset_target_sizes(12, 0, 2, 0, 0);
  const TrainingDatasets datasets = build("6,1,1", sizes);
  EXPECT_TRUE(datasets.train);
  EXPECT_TRUE(datasets.valid.empty() && datasets.test.empty());
  EXPECT_EQ(datasets.readers.front()->num_documents(), 10);
}

TEST_F(GptDatasetTest, RunsWithoutATestSplit) {
  const auto sizes = dataset_target_sizes(12, 0, 2, 4, 1);
  const TrainingDatasets datasets = build("6,2,0", sizes);
  EXPECT_TRUE(datasets.train && !datasets.valid.empty());
  EXPECT_TRUE(datasets.test.empty());
}

TEST_F(GptDatasetTest, SaysWhichSplitIsMissing) {
  const auto sizes = dataset_target_sizes(800, 0, 8, 1000, 40);
  const auto error = [&](const char* split) { return error_of([&] { build(split, sizes); }); };
  EXPECT_THAT(error("100,0,0"), HasSubstr("validation requested (--eval-iters 40) but --split "
                                          "100,0,0 gives it 0 %"));
  EXPECT_THAT(error("0,1,1"),
              HasSubstr("training requested (800 samples) but --split 0,1,1 gives it 0 %"));
  EXPECT_THAT(error("6,2,0.001"), HasSubstr("test requested (--eval-iters 40) but --split "
                                            "6,2,0.001 gives it too little of the 8 documents"));
}

TEST_F(GptDatasetTest, RefusesADatasetWithoutTokens) {
  write_dataset<uint16_t>(folder_ / "empty", TokenType::kUInt16, {{}, {}});
  const auto sizes = dataset_target_sizes(8, 0, 8, 0, 0);
  EXPECT_THAT(error_of([&] { build("100", sizes, "empty"); }),
              HasSubstr("gives it too little of the 0 documents"));
}

}  // namespace
}  // namespace weft
