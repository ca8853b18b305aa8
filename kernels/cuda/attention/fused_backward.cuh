// Attention backward on Hopper in one kernel with five products: a block owns 128 keys, sums their dK and
// dV over the queries that stream through it, and adds its part of dQ to sums in memory, in a fixed order
// (turns.cuh). Its blocks stay on their multiprocessors and take one item after the other, so that the
// next item's tiles arrive while the last ones of this item are multiplied.
//
// Two warpgroups multiply (backward_products.cuh); the third one's warps copy tiles and bring dQ to memory
// (backward_sums.cuh), which needs few registers.
#pragma once

#include "kernels/cuda/attention/backward_products.cuh"
#include "kernels/cuda/attention/backward_sums.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Takes tickets and copies their tiles; one thread does all of it. It takes a ticket when all tiles of the item before
// are on their way, not earlier: the items that follow wait for this one.
template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void load_tiles(const Params& p, const BackwardMemory<Shape, kDropout>& memory,
                                  const CUtensorMap& qkv_map, const CUtensorMap& dout_map) {
  const int num_tickets = (p.T + kTurnKeys - 1) / kTurnKeys * p.B * p.H;
  int step = 0;
  for (int i = 0;; ++i) {
    memory.own().wait_empty(i);
    const int next = atomicAdd(p.turns, 1), ticket = next < num_tickets ? next : -1;
    memory.item(i) = ticket;
    const uint32_t own_full = memory.own().full(i);
    if (ticket < 0) {
      arrive(own_full);
      return;
    }
    const Item item = item_of(p, ticket);
    const int b = item.bh / p.H, h = item.bh % p.H, first_key = item.tile * kTurnKeys;
    expect_bytes(own_full, 2 * Shape::kGroups * Shape::kTileBytes);
    for (int group = 0; group < Shape::kGroups; ++group) {
      memory.k_tile(i, group).load(qkv_map, 3 * h + 1, first_key + 64 * group, b, own_full);
      memory.v_tile(i, group).load(qkv_map, 3 * h + 2, first_key + 64 * group, b, own_full);
    }
    const HeadView<Shape> head(p, item.bh);
    const int last_key = first_key + kTurnKeys - 1;
    const int end = kDocuments ? end_of_queries_of(p, b, last_key) : p.T;
    for (int query = first_key; query < end; query += Shape::kStep, ++step) {
      memory.stages().wait_empty(step);
      const uint32_t full = memory.stages().full(step);
      expect_bytes(
          full, 2 * Shape::kTileBytes + 2 * Shape::kStep * 4 + (kDropout ? Shape::kMaskBytes : 0));
      memory.q_tile(step).load(qkv_map, 3 * h, query, b, full);
      memory.dout_tile(step).load(dout_map, h, query, b, full);
      for (int group = 0; kDropout && group < Shape::kGroups; ++group) {
        load_bytes(memory.mask(step, group),
                   mask_tile(p, item.bh, query / kMaskTile, first_key / kMaskTile + group),
                   kMaskTileBytes, full);
      }
      load_bytes(memory.rows(step), head.lse2 + query, Shape::kStep * 4, full);
      load_bytes(memory.rows(step) + Shape::kStep * 4, head.delta + query, Shape::kStep * 4, full);
    }
  }
}

#endif  // sm_90a

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    attention_backward_hopper_kernel(const __grid_constant__ Params p,
                                     const __grid_constant__ CUtensorMap qkv_map,
                                     const __grid_constant__ CUtensorMap dout_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Memory = BackwardMemory<Shape, kDropout>;
  __shared__ __align__(8) uint64_t barriers[Memory::kNumBarriers];
  __shared__ int items[Shape::kOwn];
  extern __shared__ uint8_t shared[];
  const Memory memory{aligned_shared(shared), shared_address(barriers), items};
  if (threadIdx.x == 0) memory.init_barriers(p.bias.of_queries != nullptr);
  __syncthreads();
  const int group = warpgroup_index();
  // The warpgroups that multiply take registers from the third one.
  if (group < Shape::kGroups) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
    multiply_tiles<Shape, kDropout, kDocuments, kAlibi>(p, memory, group);
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int warp = uniform(static_cast<int>(threadIdx.x) / 32 % 4);
    if (warp < Shape::kGroups) {
      add_query_gradients<Shape, kDropout, kDocuments>(p, memory, warp);
    } else if (warp == Shape::kGroups) {
      if ((threadIdx.x & 31) == 0)
        load_tiles<Shape, kDropout, kDocuments>(p, memory, qkv_map, dout_map);
    } else if (p.bias.of_queries != nullptr) {
      sum_query_gradients<Shape, kDropout, kDocuments>(p, memory);
    }
  }
#endif
}

// Launches nothing and returns false where the kernel cannot run.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
bool launch_fused_backward(cudaStream_t stream, const Params& p) {
  const auto kernel = attention_backward_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const void* function = reinterpret_cast<const void*>(kernel);
  static const bool usable = runs_on_hopper(function);
  if (!usable) return false;
  static const int num_multiprocessors = multiprocessors();
  constexpr int kSharedBytes = Shape::shared_bytes(kDropout);
  constexpr const char* kName = "attention_backward_hopper_kernel";
  allow_shared_memory(function, kSharedBytes, kName);
  constexpr bool kFp16 = kIsFp16<typename Shape::Element>;
  backward_rows(stream, p, kFp16 ? DType::kFloat16 : DType::kBFloat16);
  const int head_size = head_size_of<Shape>(p);
  const int num_items = (p.T + kTurnKeys - 1) / kTurnKeys * p.B * p.H;
  kernel<<<std::min(num_items, num_multiprocessors), Shape::kThreads, kSharedBytes, stream>>>(
      p, tensor_map(p.qkv, Shape::D, head_size, 3 * p.H, p.T, p.B),
      tensor_map(p.dout, Shape::D, head_size, p.H, p.T, p.B));
  check_launch(kName);
  return true;
}

}  // namespace weft::cuda::attention
