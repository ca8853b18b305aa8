#include "preprocess/analyze/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/order/curriculum/integer_rows.h"
#include "preprocess/analyze/score_file.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::vector<uint16_t>> random_documents(uint32_t seed, int count) {
  std::mt19937 random(seed);
  std::vector<std::vector<uint16_t>> documents(static_cast<size_t>(count));
  for (auto& document : documents) {
    document.resize(1 + random() % 40);
    for (uint16_t& token : document) token = static_cast<uint16_t>(random() % 7 * (random() % 5));
  }
  return documents;
}

struct Fixture {
  explicit Fixture(const TemporaryFolder& folder, uint32_t seed_of_b = 2) {
    write_dataset<uint16_t>(folder / "a", TokenType::kUInt16, random_documents(1, 60));
    write_dataset<uint16_t>(folder / "b", TokenType::kUInt16, random_documents(seed_of_b, 90));
    options.blends = resolve_data_paths(
        {.data_path = {"0.3", (folder / "a").string(), "0.7", (folder / "b").string()}});
    options.split = "100,0,0";
    options.seq_length = 16;
    samples = build_training_datasets(options, {.train_samples = 200});
  }
  const BlendedDataset& train() const { return *samples.train; }
  SampleOrder options;
  TrainingDatasets samples;
};

AnalyzedMetric metric(const std::string& name) {
  return {.request = {.name = name}, .make = [name](const std::vector<double>& rarities) {
            return make_sample_metric(name, rarities);
          }};
}

std::vector<int64_t> values_of(const std::filesystem::path& folder, const std::string& name) {
  const NpyArray file(folder / name / (name + ".npy"));
  const auto values = file.values<int64_t>();
  return {values.begin(), values.end()};
}

// Each metric once more, as simply as it can be said.
TEST(Analysis, ValuesAreThoseOfTheDefinitions) {
  const TemporaryFolder folder;
  const Fixture fixture(folder);
  const BlendedDataset& train = fixture.train();
  analyze_samples(
      train,
      {.output = folder / "out",
       .metrics = {metric("vocab_rarity"), metric("document_length"), metric("repeated_tokens")},
       .order = {},
       .num_threads = 3},
      [](const auto&) {});
  std::map<int32_t, double> counts;
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(train.num_samples()),
                                           std::vector<int32_t>(17));
  int32_t max_id = 0;
  for (int64_t i = 0; i < train.num_samples(); ++i) {
    train.sample(i, tokens[static_cast<size_t>(i)].data());
    for (const int32_t id : tokens[static_cast<size_t>(i)]) {
      counts[id] += 1;
      max_id = std::max(max_id, id);
    }
  }
  double total = 0;
  for (int32_t id = 0; id <= max_id; ++id) total += std::max(counts[id], 1.0);
  const auto rarities = values_of(folder / "out", "vocab_rarity");
  const auto lengths = values_of(folder / "out", "document_length");
  const auto repeated = values_of(folder / "out", "repeated_tokens");
  for (int64_t i = 0; i < train.num_samples(); ++i) {
    const auto& sample = tokens[static_cast<size_t>(i)];
    double rarity = 0;
    for (const int32_t id : sample) rarity -= std::log(std::max(counts[id], 1.0) / total);
    EXPECT_NEAR(static_cast<double>(rarities[static_cast<size_t>(i)]), std::floor(rarity), 0.01);
    const GptDataset& dataset = train.dataset(train.locate(i).dataset_idx);
    int64_t sum = 0;
    for (const SamplePart& part : train.sample_parts(i))
      sum += part.num_tokens * dataset.reader().length(part.sequence_idx);
    EXPECT_EQ(lengths[static_cast<size_t>(i)], sum / 17);
    std::set<std::vector<int32_t>> runs;
    int64_t num_repeated = 0;
    for (size_t t = 0; t + 4 <= sample.size(); ++t)
      num_repeated += !runs.insert({sample.begin() + static_cast<std::ptrdiff_t>(t),
                                    sample.begin() + static_cast<std::ptrdiff_t>(t) + 4})
                           .second;
    EXPECT_EQ(repeated[static_cast<size_t>(i)], num_repeated * 1'000'000 / 17);
  }
}

TEST(Analysis, FilesAreThoseOfDeepSpeedsAnalyzer) {
  const TemporaryFolder folder;
  const Fixture fixture(folder);
  const auto stamps = analyze_samples(fixture.train(),
                                      {.output = folder / "out",
                                       .metrics = {metric("document_length")},
                                       .order = describe_order(fixture.train(), fixture.options),
                                       .num_threads = 2},
                                      [](const auto&) {});
  const auto values = values_of(folder / "out", "document_length");
  const auto prefix = (folder / "out" / "document_length" / "document_length").string();
  const IntegerRows metrics(prefix + "_index_to_metric"), samples(prefix + "_index_to_sample"),
      each(prefix + "_sample_to_metric"), merged(prefix + "_index_to_sample_percentile_merged");
  ASSERT_EQ(metrics.num_rows(), samples.num_rows());
  ASSERT_EQ(each.num_rows(), std::ssize(values));
  EXPECT_EQ(merged.num_values(), std::ssize(values));
  std::set<int64_t> seen;
  for (int64_t row = 0; row < samples.num_rows(); ++row) {
    if (row > 0) {
      EXPECT_LT(metrics.value(row - 1), metrics.value(row));
    }
    for (int64_t i = samples.row_begin(row); i < samples.row_begin(row + 1); ++i) {
      const int64_t sample = samples.value(i);
      EXPECT_EQ(values[static_cast<size_t>(sample)], metrics.value(row));
      EXPECT_EQ(each.value(sample), metrics.value(row));
      EXPECT_TRUE(seen.insert(sample).second);
    }
  }
  EXPECT_EQ(std::ssize(seen), std::ssize(values));
  EXPECT_EQ(stamps[0]["samples"], values.size());
  check_same_order(stamps[0]["order"], fixture.train(), fixture.options, "metric");

  SampleOrder other = fixture.options;
  other.split = "100, 0, 0";  // other words for the same
  check_same_order(stamps[0]["order"], fixture.train(), other, "metric");
  other.seed = 99;
  EXPECT_THAT(
      [&] { check_same_order(stamps[0]["order"], fixture.train(), other, "metric"); },
      ThrowsMessage<std::runtime_error>(HasSubstr("metric was made of other samples, or of another "
                                                  "order of them: seed was 1234 and is 99")));
  const Fixture replaced(folder, 3);
  EXPECT_THROW(check_same_order(stamps[0]["order"], replaced.train(), replaced.options, "metric"),
               std::runtime_error);
}

// The example of preprocess/analyze/README.md.
TEST(Analysis, RarityOfTheExample) {
  const std::vector<double> rarities = rarity_of_tokens(std::vector<int64_t>{0, 6, 2, 2});
  const auto rarity = make_sample_metric(kVocabRarity, rarities);
  const std::vector<int32_t> first = {1, 1, 1, 1, 2}, second = {1, 2, 3, 3, 1};
  EXPECT_EQ(rarity->measure({.tokens = first, .parts = {}}), 4);
  EXPECT_EQ(rarity->measure({.tokens = second, .parts = {}}), 6);
}

TEST(Analysis, DocumentScoresAreMeansOverTokens) {
  const std::vector<std::vector<int64_t>> scores = {{}, {10, -7, 3}};
  const std::vector<SamplePart> parts = {{.document_idx = 1, .num_tokens = 3},
                                         {.document_idx = 2, .num_tokens = 1}};
  const auto scored = make_document_scores(scores);
  // (-7 * 3 + 3) / 4 = -4.5
  EXPECT_EQ(scored->measure({.dataset_idx = 1, .tokens = {}, .parts = parts}), -5);
}

// A document of 2^34 tokens' score, say, times the tokens of a long sample is more than 64 bits
// hold.
TEST(Analysis, MeansOfLargeValuesDoNotOverflow) {
  const std::vector<std::vector<int64_t>> scores = {{int64_t{1} << 40, -(int64_t{1} << 40)}};
  const std::vector<SamplePart> long_part = {{.document_idx = 0, .num_tokens = int64_t{1} << 30}};
  const std::vector<SamplePart> negative = {{.document_idx = 1, .num_tokens = int64_t{1} << 30}};
  const auto scored = make_document_scores(scores);
  EXPECT_EQ(scored->measure({.tokens = {}, .parts = long_part}), int64_t{1} << 40);
  EXPECT_EQ(scored->measure({.tokens = {}, .parts = negative}), -(int64_t{1} << 40));
}

// Documents of many sequences: their length in tokens, by summing up the sequences.
TEST(Analysis, LengthsOfDocumentsAreTheSumsOfTheirSequences) {
  constexpr uint32_t kSeed = 11;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937 random(kSeed);
  const TemporaryFolder folder;
  std::vector<int32_t> lengths, sequences_of;
  for (int document = 0; document < 300; ++document) {
    const auto count = static_cast<int32_t>(document % 50 == 7 ? 1000 : random() % 4);
    sequences_of.push_back(count);
    for (int32_t i = 0; i < count; ++i) lengths.push_back(1 + static_cast<int32_t>(random() % 9));
  }
  const std::vector<uint16_t> tokens(
      static_cast<size_t>(std::accumulate(lengths.begin(), lengths.end(), 0)), 5);
  DatasetWriter writer(folder / "d", TokenType::kUInt16);
  writer.append_documents(std::as_bytes(std::span(tokens)), lengths, sequences_of);
  writer.finish();
  const DatasetReader reader(folder / "d");
  ASSERT_EQ(reader.num_documents(), std::ssize(sequences_of));
  for (int64_t document = 0; document < reader.num_documents(); ++document) {
    int64_t sum = 0;
    for (int64_t sequence = reader.document_bound(document);
         sequence < reader.document_bound(document + 1); ++sequence)
      sum += reader.length(sequence);
    EXPECT_EQ(num_tokens_of_document(reader, document), sum) << "document " << document;
  }
}

// Ids decide how much memory counting takes, so that one of 2^31 - 1 would take 16 GiB on each
// thread.
TEST(Analysis, RefusesTokenIdsThatNoVocabularyHas) {
  const TemporaryFolder folder;
  for (const int32_t id : {INT32_MAX, -1, 1 << 22}) {
    write_dataset<int32_t>(folder / "a", TokenType::kInt32,
                           {std::vector<int32_t>(40, 3), {1, 2, id, 4, 5, 6, 7, 8, 9, 10}});
    SampleOrder options;
    options.blends = resolve_data_paths({.data_path = {(folder / "a").string()}});
    options.split = "100,0,0";
    options.seq_length = 16;
    const TrainingDatasets datasets = build_training_datasets(options, {.train_samples = 3});
    EXPECT_THAT(
        [&] {
          analyze_samples(*datasets.train,
                          {.output = folder / "out",
                           .metrics = {metric("vocab_rarity")},
                           .order = {},
                           .num_threads = 2},
                          [](const auto&) {});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr("holds the token id " + std::to_string(id) +
                                                    ", and ids are from 0 to 4194303")));
    EXPECT_FALSE(std::filesystem::exists(folder / "out" / "vocab_rarity"));
  }
}

TEST(Analysis, RarityRefusesATokenThatWasNotCounted) {
  const std::vector<double> rarities = {1, 2, 3};
  const auto rarity = make_sample_metric(kVocabRarity, rarities);
  const std::vector<int32_t> tokens = {0, 1, 2, 3};
  EXPECT_THAT([&] { rarity->measure({.tokens = tokens, .parts = {}}); },
              ThrowsMessage<std::runtime_error>(HasSubstr("token id 3 was not there")));
}

TEST(ScoreFile, NamesTheLineThatIsWrong) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& text, int64_t scale) {
    write_file_atomically(folder / "scores", text);
    return read_scores(folder / "scores", 2, scale, "document");
  };
  EXPECT_THAT(read("3\n-5\n", 1), ElementsAre(3, -5));
  EXPECT_THAT(read("0.29\r\n-1.5", 100), ElementsAre(29, -150));
  const auto refuses = [&](const std::string& text, const std::string& what) {
    EXPECT_THAT([&] { read(text, 1); }, ThrowsMessage<std::runtime_error>(HasSubstr(what)));
  };
  refuses("0.25\n1\n", "scores:1: 0.25 has a fraction");
  refuses("1\nx\n", "scores:2: 'x' is no number");
  refuses("1\n\n", "scores:2: '' is no number");
  refuses("1\nnan\n", "scores:2: 'nan' is no number");
  refuses("1\n5e9\n", "scores:2: 5e9 times --score-scale is 2^32 or more");
  refuses("1\n2\n3\n", "scores:3: a line too many");
  refuses("1\n", "it has 1 line, but there are 2 documents");
}

}  // namespace
}  // namespace weft
