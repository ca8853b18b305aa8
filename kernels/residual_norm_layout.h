// How the backward kernels of the residual norm on CUDA share rows out among threads, in plain C++:
// a dry run plans their scratch without a GPU. Here are the table of layouts, the choice by a row's
// length, and the grid.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "kernels/numbers/philox.h"

namespace weft::cuda {

template <int kVecs_, int kSlots_, int kMaxThreads_, int kMinBlocks_>
struct RowLayout {
  static constexpr int kVecs = kVecs_;  // a thread's 16-byte vectors of a row of the stream
  // A slot has a row in shared memory. One slot holds the current row, and the rows of the others
  // are fetched ahead. Without slots (0) rows come straight from memory.
  static constexpr int kSlots = kSlots_;
  static constexpr int kMaxThreads = kMaxThreads_;  // in a block
  static constexpr int kMinBlocks = kMinBlocks_;    // blocks of so many threads on a multiprocessor
  static constexpr int kMaxRowVecs = kVecs * kMaxThreads;
  static_assert(kSlots >= 2 || kSlots == 0);
};

template <typename... L>
struct RowLayouts {};

// The layouts, from the shortest rows to the longest. Registers hold the sums of a thread's
// columns: a thread may use 128 in two blocks of 256 threads or in one of 512, 96 in two blocks of
// 320, and 64 in one of 1024. In each layout rows that are fetched ahead fit into the 99 KiB that a
// block has on the smallest GPUs. tests/bench/results/2026-11-26-own-kernels-h100.md has the times.
template <int kElementBytes>
using LayoutsOf =
    std::conditional_t<kElementBytes == 2,
                       RowLayouts<RowLayout<2, 2, 256, 2>, RowLayout<2, 2, 512, 1>,
                                  RowLayout<2, 0, 1024, 1>, RowLayout<8, 0, 1024, 1>>,
                       RowLayouts<RowLayout<2, 3, 320, 2>, RowLayout<4, 2, 256, 2>,
                                  RowLayout<2, 0, 1024, 1>, RowLayout<8, 0, 1024, 1>>>;

// Calls function(layout) with the first layout that has rows of `num_vecs` vectors.
template <typename Function, typename... L>
void choose_layout(int64_t num_vecs, RowLayouts<L...>, Function function) {
  if (!((num_vecs <= L::kMaxRowVecs && (function(L{}), true)) || ...))
    throw std::invalid_argument("the norm on CUDA: a row is longer than 128 KiB");
}

// A block has num_groups groups of group_threads threads. Rows straight from memory have one group.
struct BackwardPlan {
  int group_threads, num_groups, blocks;
};

template <typename Layout>
BackwardPlan plan_backward(Layout, int64_t N, int64_t num_vecs, int num_multiprocessors) {
  constexpr int kMaxGroups = Layout::kSlots == 0 ? 1 : 15;  // A block has 16 barriers.
  const int64_t threads = (std::max<int64_t>(num_vecs, 1) + Layout::kVecs - 1) / Layout::kVecs;
  const int group_threads = static_cast<int>((threads + 31) / 32 * 32);
  const int num_groups = std::min(Layout::kMaxThreads / group_threads, kMaxGroups);
  const int blocks_per_sm = Layout::kMinBlocks * Layout::kMaxThreads / (num_groups * group_threads);
  return {group_threads, num_groups,
          static_cast<int>(
              std::min<int64_t>((N + num_groups - 1) / num_groups,
                                static_cast<int64_t>(blocks_per_sm) * num_multiprocessors))};
}

// Sums over rows: dweight, dbias unless the norm is an RMSNorm, and dbranch_bias.
WEFT_HOST_DEVICE constexpr int num_sums(bool rms, bool branch_bias) {
  return (rms ? 1 : 2) + (branch_bias ? 1 : 0);
}

}  // namespace weft::cuda
