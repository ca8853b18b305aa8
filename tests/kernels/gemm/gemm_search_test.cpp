// The search for algorithms decides without a GPU what it tries, and what it can check.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "kernels/cuda/gemm/exact_check.h"
#include "kernels/cuda/gemm/wider_set.h"

namespace weft::cuda {
namespace {

constexpr int kH100 = 132;  // multiprocessors

std::vector<Configuration> configurations(int64_t m, int64_t n, int64_t k,
                                          const std::vector<int>& splits = {1}) {
  return wider_configurations(m, n, k, splits, kH100);
}

class WiderSet : public testing::Test {
 protected:
  void SetUp() override {
    if (configurations(2304, 2304, 16384).empty())
      GTEST_SKIP() << "the cuBLASLt of CUDA toolkits before 13 has no such tiles";
  }
};

TEST_F(WiderSet, BeginsWithTilesThatFillTheLastWave) {
  // 2304 x 2304 has 126 tiles of these sizes: one wave.
  const std::vector<Configuration> list = configurations(2304, 2304, 16384);
  ASSERT_GT(list.size(), 100U);
  for (size_t i = 0; i < 8; ++i) {
    const Tile& tile = list[i].tile;
    const int64_t tiles =
        ((2304 + tile.rows - 1) / tile.rows) * ((2304 + tile.columns - 1) / tile.columns);
    EXPECT_LE(tiles, kH100) << tile.rows << "x" << tile.columns;
    EXPECT_GT(tiles, kH100 * 9 / 10) << tile.rows << "x" << tile.columns;
  }
}

// Winners of a search on an H100 through all of them are among the first, of which a second times
// that many.
TEST_F(WiderSet, MeasuredWinnersAreEarly) {
  struct Case {
    int64_t m, n, k;
    int rows, columns;
  };
  for (const Case& c : {Case{2304, 16384, 2304, 128, 152}, Case{2304, 16384, 2304, 128, 176},
                        Case{2304, 2304, 16384, 384, 112}, Case{9216, 2304, 16384, 160, 256},
                        Case{2304, 6912, 16384, 256, 160}, Case{768, 65536, 3072, 128, 176},
                        Case{768, 2304, 65536, 112, 128}}) {
    const std::vector<Configuration> list = configurations(c.m, c.n, c.k);
    size_t place = 0;
    while (place < list.size() &&
           (list[place].tile.rows != c.rows || list[place].tile.columns != c.columns))
      ++place;
    ASSERT_LT(place, list.size());
    EXPECT_LT(place, 80U) << c.rows << "x" << c.columns << " for " << c.m << "x" << c.n;
  }
}

TEST_F(WiderSet, HasNoConfigurationTwice) {
  std::set<std::tuple<uint32_t, int, uint32_t, uint16_t>> seen;
  for (const Configuration& c : configurations(768, 768, 65536, {1, 7}))
    EXPECT_TRUE(seen.emplace(c.tile.id, c.split_k, c.custom, c.cluster).second);
}

TEST_F(WiderSet, NeighboursDifferInCustomOptionOrCluster) {
  const Configuration c = configurations(2304, 2304, 16384, {2}).front();
  std::set<std::pair<uint32_t, uint16_t>> seen = {{c.custom, c.cluster}};
  for (const Configuration& neighbour : neighbours_of(c)) {
    EXPECT_EQ(neighbour.tile.id, c.tile.id);
    EXPECT_EQ(neighbour.split_k, 2);
    EXPECT_TRUE(seen.emplace(neighbour.custom, neighbour.cluster).second);
  }
  EXPECT_EQ(seen.size(), 24U);
}

// No sum of products exceeds 2^22, and the operands are whole numbers of bf16.
TEST(ExactRange, KeepsSumsExact) {
  for (const int64_t k : {8, 64, 768, 2304, 16384, 50304, 65536, 262144, 1 << 22}) {
    const int64_t range = exact_range(k, DType::kFloat32);
    EXPECT_GE(range, 1);
    EXPECT_LE(range, 128);
    EXPECT_LE(k * range * range, 1 << 22) << k;
    const int64_t narrow = exact_range(k, DType::kFloat16);
    EXPECT_LE(narrow, range);
    if (narrow > 1) {
      EXPECT_LE(static_cast<double>(narrow * narrow) / 3 * std::sqrt(static_cast<double>(k)),
                65504 / 4)
          << k;
    }
  }
  EXPECT_EQ(exact_range(2304, DType::kBFloat16), 42);
}

TEST(ExactCheck, CoversWhatHasExactSums) {
  const GemmProblem covered{.m = 64, .n = 64, .k = 64, .inputs = DType::kBFloat16};
  const auto has = [&](auto change) {
    GemmProblem problem = covered;
    change(problem);
    return has_exact_sums(problem);
  };
  EXPECT_TRUE(has_exact_sums(covered));
  EXPECT_TRUE(has([](GemmProblem& p) { p.epilogue = Epilogue::kBiasGradient; }));
  EXPECT_TRUE(has([](GemmProblem& p) { p.inputs = DType::kFloat16; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.epilogue = Epilogue::kDGelu; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.inputs = DType::kFloat8E4M3; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.inputs = DType::kFloat32; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.b_input = DType::kFloat8E4M3; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.batch.count = 2; }));
  EXPECT_FALSE(has([](GemmProblem& p) { p.k = (1 << 22) + 8; }));
}

}  // namespace
}  // namespace weft::cuda
