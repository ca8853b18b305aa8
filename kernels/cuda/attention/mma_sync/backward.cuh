// Attention backward on mma.sync, in two kernels: in the query kernel a block owns a tile of
// queries and sums dQ over the keys, in the key kernel it owns a tile of keys and sums dK and dV
// over the queries. With P = exp(scale * Q K^T - lse) and delta = rowsum(dO * O) [Dao 2023,
// arXiv:2307.08691, algorithm 2]:
//
//   dP = dO V^T   dS = P * (dP - delta)   dQ = scale * dS K   dK = scale * dS^T Q   dV = P^T dO
//
// These are seven products where one kernel needs five. In return no sum crosses blocks: there are
// no atomics and no fp32 accumulators in memory, and the order is fixed. The key kernel computes
// S^T and dP^T, so that P^T and dS^T become operands without leaving registers. With dropout's
// factor F, dV = (P F)^T dO and dP = (dO V^T) F.
#pragma once

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/attention/backward_workspace/row_values.h"
#include "kernels/cuda/attention/mma_sync/backward_key.cuh"
#include "kernels/cuda/attention/mma_sync/backward_query.cuh"
#include "kernels/cuda/device/numbers.cuh"

namespace weft::cuda::attention {

// A block keeps kOwned rows; the rows of the other side stream through it, kStep at a time.
template <typename ElementType, int kHeadSize, int kMTiles, int kNumWarps, int kStepRows,
          int kMinBlocks>
struct BackwardShape {
  using Element = ElementType;
  static constexpr int D = kHeadSize;
  static constexpr bool kPadded = false;
  static constexpr int kM = kMTiles;
  static constexpr int kWarpRows = 16 * kM;
  static constexpr int kThreads = 32 * kNumWarps;
  static constexpr int kOwned = kWarpRows * kNumWarps;
  static constexpr int kStep = kStepRows;
  static constexpr int kBlocksPerSm = kMinBlocks;
  // Two own tiles, and two stages of two streamed ones.
  static constexpr int kTileBytes = (2 * kOwned + 4 * kStep) * D * 2;
  static constexpr int kSharedBytes =
      kTileBytes + 4 * kStep * 4;  // tiles and two stages of lse2 and delta
  static_assert(kRowPadding % kStep == 0 && kRowPadding % kOwned == 0);
};

template <class Shape>
void launch_backward_part(cudaStream_t stream, const Params& p, void (*kernel)(Params),
                          const char* name) {
  allow_shared_memory(reinterpret_cast<const void*>(kernel), Shape::kSharedBytes, name);
  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, Shape::kSharedBytes, stream>>>(p);
  check_launch(name);
}

template <class QueryShape, class KeyShape, bool kDropout, bool kDocuments, bool kAlibi>
void launch_backward(cudaStream_t stream, const Params& p) {
  constexpr bool kFp16 = kIsFp16<typename QueryShape::Element>;
  backward_rows(stream, p, kFp16 ? DType::kFloat16 : DType::kBFloat16);
  launch_backward_part<KeyShape>(
      stream, p, attention_backward_key_kernel<KeyShape, kDropout, kDocuments, kAlibi>,
      "attention_backward_key_kernel");
  launch_backward_part<QueryShape>(
      stream, p, attention_backward_query_kernel<QueryShape, kDropout, kDocuments, kAlibi>,
      "attention_backward_query_kernel");
}

}  // namespace weft::cuda::attention
