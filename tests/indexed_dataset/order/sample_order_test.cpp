// --sample-order: the rules of older programs against published numbers, and all orders against a
// second, simple implementation that follows the description of those programs word by word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "indexed_dataset/order/samples/gpt_index.h"
#include "indexed_dataset/order/samples/numpy_random.h"
#include "indexed_dataset/order/samples/order_kind.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

constexpr SequenceRange kNothing{0, 0};

std::vector<int64_t> bounds_of(const char* split, int64_t num_sequences, OrderKind order) {
  std::vector<int64_t> bounds = {0};
  for (const auto& range : split_ranges(split, num_sequences, order))
    bounds.push_back(range.value_or(kNothing).end);
  return bounds;
}

TEST(LegacySplit, RoundsEachShareByItself) {
  using Bounds = std::vector<int64_t>;
  EXPECT_EQ(bounds_of("949,50,1", 10, OrderKind::kCore), (Bounds{0, 9, 10, 10}));
  for (const OrderKind order : {OrderKind::kLegacy, OrderKind::kBigscience, OrderKind::kNeox}) {
    EXPECT_EQ(bounds_of("949,50,1", 10, order), (Bounds{0, 10, 10, 10})) << name_of(order);
    EXPECT_EQ(bounds_of("949,50,1", 304230423, order),
              (Bounds{0, 288714672, 303926193, 304230423}));
    EXPECT_EQ(bounds_of("8,1,1", 304230423, order)[1], 243384339);
    EXPECT_EQ(bounds_of("949,50,1", 79000, order), (Bounds{0, 74971, 78921, 79000}));
  }
}

// Counted with NumPy and the code of both generations.
TEST(LegacySplit, DiffersFromCoreAsOftenAsUpstream) {
  int64_t num_different = 0;
  for (int64_t n = 1; n < 20000; ++n) {
    num_different +=
        bounds_of("949,50,1", n, OrderKind::kLegacy) != bounds_of("949,50,1", n, OrderKind::kCore);
  }
  EXPECT_EQ(num_different, 4940);
}

TEST(LegacySplit, RefusesToBeginBeforeTheFirstSequence) {
  EXPECT_THROW(split_ranges("0,1,1", 3, OrderKind::kLegacy), std::invalid_argument);
  EXPECT_NO_THROW(split_ranges("0,1,1", 3, OrderKind::kCore));
}

struct SimpleIndex {
  std::vector<int64_t> documents, rows, order;
};

void shuffle(RandomState& random, std::vector<int64_t>& all, size_t begin, size_t end) {
  for (size_t i = end - begin; i-- > 1;) std::swap(all[begin + i], all[begin + random.bounded(i)]);
}

// Epochs are counted one by one, and the stream is laid out token by token.
SimpleIndex simple_index(const std::vector<int32_t>& lengths, SequenceRange range,
                         std::optional<int64_t> wanted, int64_t L, int64_t seed, OrderKind order) {
  int64_t tokens = 0;
  for (int64_t i = range.begin; i < range.end; ++i) tokens += lengths[static_cast<size_t>(i)];
  int64_t epochs = 1;
  while (wanted && (epochs * tokens - 1) / L < *wanted) ++epochs;
  const int64_t before = ((epochs - 1) * tokens - 1) / L, per_epoch = (tokens - 1) / L;
  bool apart = false;
  if (epochs > 1) {
    const int64_t last = *wanted - before;
    if (order == OrderKind::kCore || order == OrderKind::kCore010 || order == OrderKind::kLegacy)
      apart = last < static_cast<int64_t>(0.80 * static_cast<double>(per_epoch));
    if (order == OrderKind::kBigscience)
      apart = last < static_cast<int64_t>(0.95 * static_cast<double>(per_epoch));
  }
  SimpleIndex index;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    for (int64_t i = range.begin; i < range.end; ++i) index.documents.push_back(i);
  }
  RandomState random(static_cast<uint32_t>(seed));
  const bool shuffles = order != OrderKind::kSequential;
  const size_t all = index.documents.size();
  const size_t first = apart ? all - static_cast<size_t>(range.end - range.begin) : all;
  if (shuffles) shuffle(random, index.documents, 0, first);
  if (shuffles && apart) shuffle(random, index.documents, first, all);

  std::vector<std::pair<int64_t, int64_t>> stream;
  for (size_t position = 0; position < all; ++position) {
    for (int32_t at = 0; at < lengths[static_cast<size_t>(index.documents[position])]; ++at)
      stream.emplace_back(position, at);
  }
  const int64_t samples = (std::ssize(stream) - 1) / L;
  index.rows = {0, 0};
  for (int64_t i = 1; i <= samples; ++i) {
    const auto [position, at] = stream[static_cast<size_t>(i * L)];
    index.rows.insert(index.rows.end(), {position, at});
  }
  index.order.resize(static_cast<size_t>(samples));
  std::iota(index.order.begin(), index.order.end(), 0);
  const size_t first_samples = static_cast<size_t>(apart ? before : samples);
  if (shuffles) shuffle(random, index.order, 0, first_samples);
  if (shuffles && apart) shuffle(random, index.order, first_samples, index.order.size());
  return index;
}

class EveryOrder : public ::testing::TestWithParam<OrderKind> {};

TEST_P(EveryOrder, EqualsTheSimpleImplementationOnRandomDatasets) {
  const uint32_t seed = 20261122 + static_cast<uint32_t>(GetParam());
  std::mt19937 random(seed);
  for (int trial = 0; trial < 300 && !HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial) + " of std::mt19937(" + std::to_string(seed) +
                 ")");
    std::vector<int32_t> lengths(2 + random() % 40);
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 30);
    const auto size = static_cast<int64_t>(lengths.size());
    SequenceRange range{static_cast<int64_t>(random() % 2),
                        size - static_cast<int64_t>(random() % 2)};
    lengths[static_cast<size_t>(range.begin)] = 7;
    if (range.begin == range.end) range.end = range.begin + 1;
    std::optional<int64_t> wanted;
    if (random() % 4 != 0) wanted = 1 + random() % 200;
    const int64_t length = 1 + static_cast<int64_t>(random() % 40);
    const auto order_seed = static_cast<int64_t>(random());
    const SimpleIndex expected =
        simple_index(lengths, range, wanted, length, order_seed, GetParam());
    const GptIndex index = build_gpt_index(SequenceLengths(lengths), {.range = range,
                                                                      .num_samples = wanted,
                                                                      .sequence_length = length,
                                                                      .seed = order_seed,
                                                                      .order = GetParam()});
    EXPECT_THAT(index.document_index, ElementsAreArray(expected.documents));
    EXPECT_THAT(std::get<std::vector<int32_t>>(index.sample_index),
                ElementsAreArray(expected.rows));
    EXPECT_THAT(std::get<std::vector<uint32_t>>(index.shuffle_index),
                ElementsAreArray(expected.order));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOrder,
                         ::testing::Values(OrderKind::kCore, OrderKind::kCore010,
                                           OrderKind::kLegacy, OrderKind::kBigscience,
                                           OrderKind::kNeox, OrderKind::kSequential),
                         [](const auto& test) {
                           std::string name = name_of(test.param);
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

// Array types differ only beyond 2^30 samples or 2^31 positions, which no test can build.
TEST(ArrayTypes, FollowEachProgramsRule) {
  EpochPlan plan;
  plan.num_samples = (int64_t{1} << 30) - 3;  // 2 (N + 1) is 2^31 - 4
  EXPECT_FALSE(has_wide_rows(plan, 1000, OrderKind::kNeox));
  plan.num_samples += 2;
  EXPECT_TRUE(has_wide_rows(plan, 1000, OrderKind::kNeox));
  EXPECT_FALSE(has_wide_rows(plan, 1000, OrderKind::kCore));
  EXPECT_FALSE(has_wide_rows(plan, (int64_t{1} << 31) - 1, OrderKind::kCore));
  EXPECT_TRUE(has_wide_rows(plan, int64_t{1} << 31, OrderKind::kCore));
  plan.num_samples = (int64_t{1} << 32) - 3;
  EXPECT_FALSE(has_wide_shuffle(plan));
  plan.num_samples += 1;
  EXPECT_TRUE(has_wide_shuffle(plan));
}

}  // namespace
}  // namespace weft
