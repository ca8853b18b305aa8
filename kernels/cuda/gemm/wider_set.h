// The configurations of cuBLASLt's Hopper kernels that are tried beyond the heuristic's list.
//
// The heuristic names eight algorithms, and all but one kind of product have the same four tiles
// among them. The library has several hundred tiles; one that fills the last wave of
// multiprocessors makes a product up to a third faster (2304 x 2304 in tiles of 384 x 112 is one
// wave of 126 blocks, in tiles of 256 x 128 one and a quarter). What is here was measured with
// cuBLASLt 13.1 on an H100.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::cuda {

// The algorithm that all of these configure, in the library's count.
constexpr int kWiderAlgorithm = 66;

struct Tile {
  uint32_t id;  // cublasLtMatmulTile_t
  int rows, columns;
};

// Attributes of kWiderAlgorithm. The others keep the values that the heuristic gives them.
struct Configuration {
  Tile tile;
  int split_k;
  // The library does not document its custom option. By times and accepted tiles, two
  // warpgroups share a tile with bit 2, and without it each has its own, which draws more power.
  uint32_t custom;
  uint16_t cluster;  // cublasLtClusterShape_t
};

constexpr bool shares_tiles(uint32_t custom) { return (custom & 4U) != 0; }

// Returns configurations for a product of m x n sums over k, the most promising first: each tile
// with each way to split k, in one cluster shape and the custom options that suit its size. The
// library's own check may refuse some.
std::vector<Configuration> wider_configurations(int64_t m, int64_t n, int64_t k,
                                                const std::vector<int>& splits,
                                                int num_multiprocessors);

// Returns the same tile and split in every other custom option and cluster shape.
std::vector<Configuration> neighbours_of(const Configuration& configuration);

}  // namespace weft::cuda
