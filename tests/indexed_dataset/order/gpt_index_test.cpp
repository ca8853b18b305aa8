// Golden values A-G7 were made with NumPy 1.24.2 and the C++ extension of Megatron-Core
// (core/datasets, commit d98e8a64dd), by the calls of core/datasets/gpt_dataset.py.
#include "indexed_dataset/order/samples/gpt_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/samples/blending_index.h"
#include "indexed_dataset/order/samples/sample_cutter.h"
#include "tests/indexed_dataset/md5.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

const std::vector<int32_t> kLengths = {5, 3, 8, 1, 13, 2, 7, 4, 6, 9};
const GptIndexOptions kSmall{.range = {0, 8}, .sequence_length = 4, .seed = 1234};

const std::vector<int32_t>& rows_of(const GptIndex& index) {
  return std::get<std::vector<int32_t>>(index.sample_index);
}
const std::vector<uint32_t>& order_of(const GptIndex& index) {
  return std::get<std::vector<uint32_t>>(index.shuffle_index);
}
GptIndex build(const GptIndexOptions& options) {
  return build_gpt_index(SequenceLengths(kLengths), options);
}

TEST(GptIndex, VectorA_OneEpoch) {
  const GptIndex index = build(kSmall);
  EXPECT_THAT(index.document_index, ElementsAre(2, 1, 6, 0, 4, 5, 3, 7));
  EXPECT_THAT(rows_of(index),
              ElementsAre(0, 0, 0, 4, 1, 0, 2, 1, 2, 5, 3, 2, 4, 1, 4, 5, 4, 9, 5, 0, 7, 1));
  EXPECT_THAT(order_of(index), ElementsAre(8, 5, 6, 0, 4, 3, 2, 9, 7, 1));
}

TEST(GptIndex, VectorB_SeparateLastEpoch) {
  GptIndexOptions options = kSmall;
  options.num_samples = 12;
  const GptIndex index = build(options);
  EXPECT_EQ(index.plan.num_tokens_per_epoch, 43);
  EXPECT_EQ(index.plan.num_epochs, 2);
  EXPECT_EQ(index.plan.num_samples, 21);
  EXPECT_TRUE(index.plan.separate_last_epoch);
  EXPECT_EQ(index.plan.num_samples_before_last_epoch, 10);
  EXPECT_THAT(index.document_index, ElementsAre(2, 1, 6, 0, 4, 5, 3, 7, 5, 0, 3, 4, 2, 6, 1, 7));
  EXPECT_THAT(rows_of(index),
              ElementsAre(0, 0, 0, 4, 1, 0, 2, 1, 2, 5, 3, 2, 4, 1, 4, 5, 4, 9, 5, 0, 7, 1, 8, 1, 9,
                          3, 11, 1, 11, 5, 11, 9, 12, 0, 12, 4, 13, 0, 13, 4, 14, 1, 15, 2));
  EXPECT_THAT(order_of(index), ElementsAre(3, 9, 2, 1, 7, 5, 4, 0, 8, 6, 18, 11, 19, 14, 13, 17, 16,
                                           20, 15, 10, 12));
}

TEST(GptIndex, VectorC_LastEpochAmongTheOthers) {
  GptIndexOptions options = kSmall;
  options.num_samples = 20;
  const GptIndex index = build(options);
  EXPECT_EQ(index.plan.num_epochs, 2);
  EXPECT_FALSE(index.plan.separate_last_epoch);
  EXPECT_THAT(index.document_index, ElementsAre(5, 3, 0, 4, 6, 2, 2, 7, 1, 1, 0, 4, 5, 6, 3, 7));
  EXPECT_THAT(order_of(index), ElementsAre(10, 4, 13, 17, 1, 14, 8, 7, 3, 6, 18, 19, 12, 11, 0, 2,
                                           15, 9, 20, 5, 16));
}

TEST(GptIndex, VectorD_KeepsThePartialLastSequence) {
  GptIndexOptions options = kSmall;
  options.range = {8, 10};
  options.drop_last_partial_sequence = false;
  const GptIndex index = build(options);
  EXPECT_THAT(index.document_index, ElementsAre(8, 9));
  EXPECT_EQ(index.plan.num_samples, 4);
  EXPECT_THAT(rows_of(index), ElementsAre(0, 0, 0, 4, 1, 2, 1, 6, 1, 8));
  EXPECT_THAT(order_of(index), ElementsAre(0, 1, 2, 3));
}

TEST(GptIndex, VectorE_WithoutExtraToken) {
  GptIndexOptions options = kSmall;
  options.add_extra_token = false;
  const GptIndex index = build(options);
  EXPECT_THAT(index.document_index, ElementsAre(2, 1, 6, 0, 4, 5, 3, 7));
  EXPECT_THAT(rows_of(index),
              ElementsAre(0, 0, 0, 4, 0, 8, 2, 1, 2, 5, 3, 2, 4, 1, 4, 5, 4, 9, 4, 13, 7, 1));
  EXPECT_THAT(order_of(index), ElementsAre(8, 5, 6, 0, 4, 3, 2, 9, 7, 1));
}

TEST(GptIndex, VectorF_ThreeEpochs) {
  GptIndexOptions options = kSmall;
  options.seed = 42;
  options.num_samples = 25;
  const GptIndex index = build(options);
  EXPECT_EQ(index.plan.num_epochs, 3);
  EXPECT_TRUE(index.plan.separate_last_epoch);
  EXPECT_EQ(index.plan.num_samples_before_last_epoch, 21);
  EXPECT_THAT(index.document_index,
              ElementsAre(0, 1, 5, 6, 5, 3, 0, 1, 2, 7, 4, 7, 2, 4, 3, 6, 7, 2, 0, 5, 6, 3, 1, 4));
  EXPECT_EQ(index.plan.num_samples, 32);
  EXPECT_THAT(order_of(index),
              ElementsAre(17, 1, 5, 0, 10, 7, 4, 12, 8, 3, 6, 19, 2, 18, 13, 14, 15, 9, 16, 20, 11,
                          27, 31, 23, 26, 25, 28, 21, 30, 22, 29, 24));
}

struct LargeVector {
  const char* name;
  GptIndexOptions options;
  int64_t num_tokens_per_epoch, num_epochs;
  bool separate;
  int64_t num_samples;
  const char *document_md5, *sample_md5, *shuffle_md5;
};

class GptIndexLarge : public ::testing::TestWithParam<LargeVector> {};

TEST_P(GptIndexLarge, EqualsMegatronCore) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < 10000; ++i) lengths.push_back(1 + 7919 * i % 997);
  const LargeVector& expected = GetParam();
  const GptIndex index = build_gpt_index(SequenceLengths(lengths), expected.options);
  EXPECT_EQ(index.plan.num_tokens_per_epoch, expected.num_tokens_per_epoch);
  EXPECT_EQ(index.plan.num_epochs, expected.num_epochs);
  EXPECT_EQ(index.plan.separate_last_epoch, expected.separate);
  EXPECT_EQ(index.plan.num_samples, expected.num_samples);
  EXPECT_EQ(md5_of(index.document_index), expected.document_md5);
  EXPECT_EQ(md5_of(rows_of(index)), expected.sample_md5);
  EXPECT_EQ(md5_of(order_of(index)), expected.shuffle_md5);
}

GptIndexOptions large(SequenceRange range, std::optional<int64_t> num_samples, int64_t seed) {
  return {.range = range, .num_samples = num_samples, .sequence_length = 128, .seed = seed};
}
GptIndexOptions without_extra_token(GptIndexOptions options) {
  options.add_extra_token = false;
  return options;
}
GptIndexOptions keeping_partial(GptIndexOptions options) {
  options.drop_last_partial_sequence = false;
  return options;
}
GptIndexOptions in_order(GptIndexOptions options, OrderKind order) {
  options.order = order;
  return options;
}

constexpr SequenceRange kTrain{0, 9490}, kValid{9490, 9990};

INSTANTIATE_TEST_SUITE_P(
    Golden, GptIndexLarge,
    ::testing::Values(
        LargeVector{"G1", large(kTrain, std::nullopt, 1234), 4740375, 1, false, 37034,
                    "30e28ba6b16eb2b590d43ba6162fc530", "bf0ddac8afd30af3f2b3cbda5ab197b3",
                    "19012acac7a6a3f0cd0aafea2734ced3"},
        LargeVector{"G2", large(kTrain, 50000, 1234), 4740375, 2, true, 74068,
                    "da315c479742bee65519158274214f59", "1b4a05f37359eb38e19cf5622b7279c0",
                    "4ae4b7c01729a9988208856f7cd33ed1"},
        LargeVector{"G3", large(kTrain, 90000, 1234), 4740375, 3, true, 111102,
                    "ea4403cbc03616f97e186d511297665a", "3f1b4861d48241a0f35640824d271df0",
                    "3f4d5dc9b3cc94b315c85b3fc9f9cac1"},
        LargeVector{"G4", large(kTrain, 72000, 42), 4740375, 2, false, 74068,
                    "0528d00914ca06ba44740a857bbae95f", "3f804098e8429a20003f52b00bb152ee",
                    "680e6e1fb4e23d1bfd92783f528143ef"},
        LargeVector{"G5", keeping_partial(large(kValid, std::nullopt, 1234)), 244782, 1, false,
                    1913, "7b3e3b0b254ea34756839fefcd27a8a0", "b0a36cca55e457942734aed7a3b1be30",
                    "1f62162c34adf5afb7db748eeb21270f"},
        LargeVector{"G6", without_extra_token(large(kTrain, 60000, 1234)), 4740375, 2, true, 74068,
                    "da315c479742bee65519158274214f59", "07665ebf912ddac03debdc0ca5b0ffce",
                    "4ae4b7c01729a9988208856f7cd33ed1"},
        LargeVector{"G7", in_order(large(kTrain, 70000, 42), OrderKind::kBigscience), 4740375, 2,
                    true, 74068, "a33bd979d8bd76cd4f4e18a12400b8b5",
                    "e044c45df997d87ea82449d719c8e0c6", "223f8cf976bdb6aab3b1bbf4f70cfd25"}),
    [](const auto& test) { return test.param.name; });

// The stream of all epochs laid out token by token; every sample must be a piece of it, one after
// the other.
void check_against_stream(const std::vector<int32_t>& lengths, const GptIndexOptions& options) {
  const GptIndex index = build_gpt_index(SequenceLengths(lengths), options);
  std::vector<std::pair<int64_t, int64_t>> stream;  // (position, offset) of each token
  for (size_t position = 0; position < index.document_index.size(); ++position) {
    const int32_t length = lengths[static_cast<size_t>(index.document_index[position])];
    for (int32_t offset = 0; offset < length; ++offset) stream.emplace_back(position, offset);
  }
  const int64_t extra = options.add_extra_token ? 1 : 0;
  const auto num_tokens = static_cast<int64_t>(stream.size());
  ASSERT_EQ(index.plan.num_samples, (num_tokens - extra) / options.sequence_length);
  if (options.num_samples) {
    EXPECT_GE(index.plan.num_samples, *options.num_samples);
    const int64_t one_less = (index.plan.num_epochs - 1) * index.plan.num_tokens_per_epoch;
    EXPECT_LT((one_less - extra) / options.sequence_length, *options.num_samples)
        << "too many epochs";
  }
  for (int64_t i = 1; i <= index.plan.num_samples; ++i) {
    // Where the row points: the stream's token i * L, or (without extra token) just behind token i
    // * L - 1.
    auto [position, offset] = stream[static_cast<size_t>(i * options.sequence_length + extra - 1)];
    const GptIndexView::Row row = index.row(i);
    EXPECT_EQ(row.position, position);
    EXPECT_EQ(row.offset_tokens, offset + 1 - extra);
  }
  std::vector<int64_t> uses(static_cast<size_t>(index.plan.num_samples));
  for (int64_t i = 0; i < index.plan.num_samples; ++i)
    ++uses[static_cast<size_t>(index.shuffled(i))];
  EXPECT_THAT(uses, ::testing::Each(1));
  if (index.plan.separate_last_epoch) {
    for (int64_t i = 0; i < index.plan.num_samples_before_last_epoch; ++i) {
      EXPECT_LT(index.shuffled(i), index.plan.num_samples_before_last_epoch);
    }
  }
}

TEST(GptIndex, SamplesCoverTheStreamOfRandomDatasets) {
  std::mt19937 random(20261120);
  for (int trial = 0; trial < 500 && !::testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(20261120)");
    std::vector<int32_t> lengths(1 + random() % 30);
    for (int32_t& length : lengths)
      length = static_cast<int32_t>(random() % 4 == 0 ? random() % 2 : random() % 40);
    lengths[0] = std::max(lengths[0], 1);
    GptIndexOptions options{.range = {0, static_cast<int64_t>(lengths.size())},
                            .sequence_length = 1 + static_cast<int64_t>(random() % 50),
                            .seed = static_cast<int64_t>(random())};
    if (random() % 4 != 0) options.num_samples = 1 + random() % 100;
    options.add_extra_token = random() % 4 != 0;
    check_against_stream(lengths, options);
  }
}

TEST(GptIndex, EpochsHoldEverySequenceEquallyOften) {
  GptIndexOptions options = kSmall;
  options.num_samples = 95;
  const GptIndex index = build(options);
  std::vector<int64_t> uses(8);
  for (const int32_t sequence : index.document_index) ++uses[static_cast<size_t>(sequence)];
  EXPECT_THAT(uses, ::testing::Each(index.plan.num_epochs));
}

// Megatron's loop, sequence by sequence.
std::vector<int64_t> simple_sample_index(const std::vector<StreamEntry>& stream,
                                         const SampleCuts& cuts) {
  std::vector<int64_t> index{0, 0};
  size_t position = 0;
  int64_t offset = 0;
  for (int64_t sample = 0; sample < cuts.num_samples; ++sample) {
    int64_t needed = cuts.sequence_length + cuts.extra_tokens;
    for (;;) {
      const auto length = static_cast<int64_t>(stream[position] >> 32);
      const int64_t available = length - offset;
      if (available >= needed) {
        offset += needed - cuts.extra_tokens;
        break;
      }
      if (position + 1 == stream.size()) {
        offset = length - cuts.extra_tokens;
        break;
      }
      needed -= available;
      ++position;
      offset = 0;
    }
    index.insert(index.end(), {static_cast<int64_t>(position), offset});
  }
  return index;
}

TEST(CutStream, EqualsTheSimpleLoopOnRandomStreams) {
  std::mt19937 random(20261123);
  for (int trial = 0; trial < 300 && !::testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(20261123)");
    // Short and long streams, of sequences without tokens, short ones and ones of many samples.
    const unsigned longest = trial % 3 == 0 ? 3 : trial % 3 == 1 ? 300 : 30000;
    std::vector<StreamEntry> stream(1 + random() % (trial % 10 == 0 ? 20000 : 40));
    std::vector<int32_t> sequences;
    int64_t num_tokens = 0;
    for (StreamEntry& entry : stream) {
      sequences.push_back(static_cast<int32_t>(random() >> 1));
      const auto length = static_cast<int32_t>(random() % 3 == 0 ? 0 : random() % longest);
      entry = stream_entry(sequences.back(), length);
      num_tokens += length;
    }
    SampleCuts cuts{.sequence_length = 1 + static_cast<int64_t>(longest / 100 + random() % 100),
                    .extra_tokens = static_cast<int64_t>(random() % 2)};
    // Fewer samples than the stream holds, as many, and more, which Megatron's 32-bit floats can
    // ask for.
    cuts.num_samples = std::max<int64_t>(num_tokens - cuts.extra_tokens, 0) / cuts.sequence_length +
                       static_cast<int64_t>(random() % 5) - 2;
    if (cuts.num_samples < 0) cuts.num_samples = 0;
    const std::vector<int64_t> expected = simple_sample_index(stream, cuts);
    std::vector<StreamEntry> copy = stream;
    const CutStream<int64_t> wide = cut_stream<int64_t>(copy, cuts);
    EXPECT_EQ(wide.document_index, sequences);
    EXPECT_EQ(wide.sample_index, expected);
    const CutStream<int32_t> narrow = cut_stream<int32_t>(stream, cuts);
    EXPECT_EQ(narrow.document_index, sequences);
    EXPECT_THAT(narrow.sample_index, ElementsAreArray(expected));
  }
}

// 40 MB, of which the front is released while the rest is read.
TEST(CutStream, ReadsAStreamWhoseFrontIsReleased) {
  constexpr size_t kSize = 5'000'000;
  std::vector<StreamEntry> stream(kSize);
  for (size_t i = 0; i < kSize; ++i)
    stream[i] = stream_entry(static_cast<int32_t>(i), static_cast<int32_t>(i % 97));
  const SampleCuts cuts{.sequence_length = 48, .extra_tokens = 1, .num_samples = kSize - 100};
  const std::vector<int64_t> expected = simple_sample_index(stream, cuts);
  const auto cut = cut_stream<int32_t>(stream, cuts);
  ASSERT_EQ(cut.document_index.size(), kSize);
  for (size_t i = 0; i < kSize; ++i) ASSERT_EQ(cut.document_index[i], static_cast<int32_t>(i));
  ASSERT_EQ(cut.sample_index.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(cut.sample_index[i], expected[i]) << i;
}

TEST(PlanEpochs, DoesNotOverflowOnTenTrillionTokens) {
  const int64_t tokens = 10'000'000'000'000;
  const GptIndexOptions options{.num_samples = 3 * (tokens / 2048), .sequence_length = 2048};
  const EpochPlan plan = plan_epochs(tokens + 7, options);
  EXPECT_EQ(plan.num_epochs, 3);
  EXPECT_EQ(plan.num_samples, (3 * (tokens + 7) - 1) / 2048);
  EXPECT_FALSE(plan.separate_last_epoch);
}

TEST(PlanEpochs, RefusesOptionsOutOfBounds) {
  GptIndexOptions options = kSmall;
  options.sequence_length = 0;
  EXPECT_THROW(plan_epochs(43, options), std::invalid_argument);
  options = kSmall;
  options.seed = int64_t{1} << 32;
  EXPECT_THROW(plan_epochs(43, options), std::invalid_argument);
  options.seed = -1;
  EXPECT_THROW(plan_epochs(43, options), std::invalid_argument);
  options = kSmall;
  options.num_samples = 0;
  EXPECT_THROW(plan_epochs(43, options), std::invalid_argument);
  options.num_samples = int64_t{1} << 61;
  EXPECT_THROW(plan_epochs(43, options), std::invalid_argument);
  EXPECT_THROW(plan_epochs(0, kSmall), std::runtime_error);
}

TEST(GptIndex, RefusesNegativeLengthsAndRangesThatAreNotThere) {
  const std::vector<int32_t> lengths = {5, -1};
  EXPECT_THROW(build_gpt_index(SequenceLengths(lengths), {.range = {0, 2}, .sequence_length = 4}),
               std::runtime_error);
  GptIndexOptions options = kSmall;
  options.range = {0, 11};
  EXPECT_THROW(build(options), std::invalid_argument);
}

// 10^15 samples of 1 token: 12 bytes each, and 12 for each sequence of each of 10^15 / 43 epochs.
TEST(GptIndex, SaysHowMuchMemoryIsMissingBeforeItAsksForIt) {
  GptIndexOptions options = kSmall;
  options.sequence_length = 1;
  options.num_samples = 1'000'000'000'000'000;
  try {
    build(options);
    FAIL() << "nothing was thrown";
  } catch (const LimitExceeded& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("samples of 1 tokens needs "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(" TB of memory, and this process can have "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("--train-samples"));
  }
  const std::vector<double> weights = {0.5, 0.5};
  EXPECT_THROW(build_blending_index(weights, options.num_samples.value()), LimitExceeded);
}

// Sequence 1 begins where sequence 0 does, which an index of the right lengths would not tell.
TEST(GptIndex, RefusesOffsetsThatContradictTheLengths) {
  const TemporaryFolder folder;
  write_dataset<uint16_t>(folder / "d", TokenType::kUInt16, {{1, 2}, {3, 4}, {5, 6}});
  std::string idx = read_file(folder / "d.idx");
  idx[34 + 3 * 4 + 8] = 0;
  write_file_atomically(folder / "d.idx", idx);
  const DatasetReader reader(folder / "d");
  EXPECT_THROW(sum_tokens(reader.lengths(), {0, 3}), std::runtime_error);
  EXPECT_EQ(sum_tokens(reader.lengths(), {2, 3}), 2);
}

TEST(GptIndex, RefusesSequencesThatTheDocumentIndexCannotNumber) {
  const int64_t count = int64_t{1} << 31;
  IndexView index;
  index.num_sequences = count;
  const SequenceLengths lengths(index);  // they are refused before they are read
  EXPECT_THROW(build_gpt_index(lengths, {.range = {0, count}, .sequence_length = 4}),
               std::runtime_error);
}

}  // namespace
}  // namespace weft
