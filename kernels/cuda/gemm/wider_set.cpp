#include "kernels/cuda/gemm/wider_set.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <utility>

namespace weft::cuda {
namespace {

#if CUBLAS_VER_MAJOR < 13
// Their names are missing, and nothing was measured.
constexpr std::array<Tile, 0> kTiles = {};
#else
#define TILE(rows, columns) \
  { CUBLASLT_MATMUL_TILE_##rows##x##columns, rows, columns }
// Tiles of a size that a product of hundreds of them may win with. One side is that of a
// warpgroup's products, and the sums of larger tiles do not fit into registers.
constexpr Tile kTiles[] = {
    TILE(80, 192),  TILE(80, 256),  TILE(80, 384),  TILE(88, 192),  TILE(88, 256),  TILE(88, 384),
    TILE(96, 128),  TILE(96, 192),  TILE(96, 256),  TILE(96, 384),  TILE(104, 128), TILE(104, 192),
    TILE(104, 256), TILE(104, 384), TILE(112, 128), TILE(112, 192), TILE(112, 256), TILE(112, 384),
    TILE(120, 128), TILE(120, 192), TILE(120, 256), TILE(128, 96),  TILE(128, 104), TILE(128, 112),
    TILE(128, 120), TILE(128, 128), TILE(128, 136), TILE(128, 144), TILE(128, 152), TILE(128, 160),
    TILE(128, 168), TILE(128, 176), TILE(128, 184), TILE(128, 192), TILE(128, 200), TILE(128, 208),
    TILE(128, 216), TILE(128, 224), TILE(128, 232), TILE(128, 240), TILE(128, 248), TILE(128, 256),
    TILE(128, 264), TILE(128, 272), TILE(128, 280), TILE(128, 288), TILE(128, 296), TILE(128, 304),
    TILE(128, 312), TILE(128, 320), TILE(128, 328), TILE(128, 336), TILE(128, 344), TILE(128, 352),
    TILE(136, 128), TILE(136, 192), TILE(136, 256), TILE(144, 128), TILE(144, 192), TILE(144, 256),
    TILE(152, 128), TILE(152, 192), TILE(152, 256), TILE(160, 128), TILE(160, 192), TILE(160, 256),
    TILE(168, 128), TILE(168, 192), TILE(168, 256), TILE(176, 128), TILE(176, 192), TILE(176, 256),
    TILE(184, 128), TILE(184, 192), TILE(192, 80),  TILE(192, 88),  TILE(192, 96),  TILE(192, 104),
    TILE(192, 112), TILE(192, 120), TILE(192, 128), TILE(192, 136), TILE(192, 144), TILE(192, 152),
    TILE(192, 160), TILE(192, 168), TILE(192, 176), TILE(192, 184), TILE(192, 192), TILE(192, 200),
    TILE(192, 208), TILE(192, 216), TILE(192, 224), TILE(192, 232), TILE(200, 128), TILE(200, 192),
    TILE(208, 128), TILE(208, 192), TILE(216, 128), TILE(216, 192), TILE(224, 128), TILE(224, 192),
    TILE(232, 128), TILE(232, 192), TILE(240, 128), TILE(248, 128), TILE(256, 80),  TILE(256, 88),
    TILE(256, 96),  TILE(256, 104), TILE(256, 112), TILE(256, 120), TILE(256, 128), TILE(256, 136),
    TILE(256, 144), TILE(256, 152), TILE(256, 160), TILE(256, 168), TILE(256, 176), TILE(264, 128),
    TILE(272, 128), TILE(280, 128), TILE(288, 128), TILE(296, 128), TILE(304, 128), TILE(312, 128),
    TILE(320, 128), TILE(328, 128), TILE(336, 128), TILE(344, 128), TILE(352, 128), TILE(384, 80),
    TILE(384, 88),  TILE(384, 96),  TILE(384, 104), TILE(384, 112),
};
#undef TILE
#endif

// The largest tile whose sums one warpgroup holds.
constexpr int kLargestUnshared = 128 * 176;

// Custom options for each side of the tile on which a warpgroup's products have their fixed size.
constexpr std::array<uint32_t, 2> kUnshared = {1, 2}, kShared = {7, 4};

constexpr uint16_t kClusters[] = {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                                  CUBLASLT_CLUSTER_SHAPE_1x2x1};
constexpr uint32_t kLargestCustom = 7;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The time of the waves of tiles, in no unit: what fills them, what each tile begins and ends with,
// and what it reads for each of its sums.
double estimate(int64_t m, int64_t n, int64_t k, const Configuration& c, int num_multiprocessors) {
  constexpr double kBeginAndEnd = 128;  // They cost what so many sums over k do.
  const int64_t blocks = ceil_div(m, c.tile.rows) * ceil_div(n, c.tile.columns) * c.split_k;
  const auto waves = static_cast<double>(ceil_div(blocks, num_multiprocessors));
  const double rows = c.tile.rows, columns = c.tile.columns;
  const double depth = static_cast<double>(k) / c.split_k + kBeginAndEnd;
  const double reads = 1 + 16 / rows + 16 / columns;
  return waves * rows * columns * depth * reads * (c.split_k > 1 ? 1.02 : 1.0);
}

}  // namespace

std::vector<Configuration> wider_configurations(int64_t m, int64_t n, int64_t k,
                                                const std::vector<int>& splits,
                                                int num_multiprocessors) {
  std::vector<std::pair<double, Configuration>> ranking;
  for (const Tile& tile : kTiles) {
    // The longer side of a tile is read once for two blocks.
    const uint16_t cluster =
        tile.rows >= tile.columns ? CUBLASLT_CLUSTER_SHAPE_1x2x1 : CUBLASLT_CLUSTER_SHAPE_2x1x1;
    const bool unshared = tile.rows * tile.columns <= kLargestUnshared;
    for (const uint32_t custom : unshared ? kUnshared : kShared) {
      for (const int split : splits) {
        const Configuration c{tile, split, custom, cluster};
        ranking.emplace_back(estimate(m, n, k, c, num_multiprocessors), c);
      }
    }
  }
  std::stable_sort(ranking.begin(), ranking.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Configuration> result;
  result.reserve(ranking.size());
  for (const auto& [cost, configuration] : ranking) result.push_back(configuration);
  return result;
}

std::vector<Configuration> neighbours_of(const Configuration& configuration) {
  std::vector<Configuration> result;
  for (const uint16_t cluster : kClusters) {
    for (uint32_t custom = 0; custom <= kLargestCustom; ++custom) {
      if (cluster == configuration.cluster && custom == configuration.custom) continue;
      Configuration c = configuration;
      c.cluster = cluster;
      c.custom = custom;
      result.push_back(c);
    }
  }
  return result;
}

}  // namespace weft::cuda
