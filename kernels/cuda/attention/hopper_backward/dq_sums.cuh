// The part of backward on Hopper that adds an item's dQ to those of other items: one warp for each
// warpgroup brings the sums of its blocks to memory when their turn has come (turns.cuh), while the
// warpgroup goes on. The last item's turn reads the finished sums back and writes dQ. Where the gradient of a bias
// is wanted, one more warp sums dQ's columns (dq_columns.cuh).
#pragma once

#include "kernels/cuda/attention/arguments/head_view.cuh"
#include "kernels/cuda/attention/arguments/numbers.cuh"
#include "kernels/cuda/attention/hopper_backward/memory.cuh"

namespace weft::cuda::attention {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline void store_bytes(void* dst, uint32_t src, int num_bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst), "r"(src),
               "r"(num_bytes)
               : "memory");
}
__device__ inline void add_floats(float* dst, uint32_t src, int num_bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(dst),
      "r"(src), "r"(num_bytes)
      : "memory");
}

// Writes dQ of 64 queries from the sums as a warpgroup's threads held them. A lane takes 8 columns of
// two rows at a time; two lanes share the 32 bytes that memory moves at once.
template <class Shape, class Memory>
__device__ inline void write_query_gradients(const Params& p, int bh, int first_query,
                                             uint32_t sums) {
  using Element = typename Shape::Element;
  const HeadView<Shape> head(p, bh);
  const int lane = threadIdx.x & 31;
#pragma unroll 1
  for (int i = lane; i < 32 * (Shape::D / 8); i += 32) {
    const int n = i / 64 * 2 + (i & 1), quad = i / 2 % 32;
    float v[4][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(v[k][0]), "=f"(v[k][1]), "=f"(v[k][2]), "=f"(v[k][3])
                   : "r"(sums + Memory::sums_place(n, quad * 4 + k) * 16)
                   : "memory");
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + quad / 8 * 16 + half * 8 + quad % 8;
      uint32_t packed[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        packed[k] = pack<Element>(v[k][2 * half] * p.scale, v[k][2 * half + 1] * p.scale);
      }
      const bool valid = query < p.T && (!Shape::kPadded || n * 8 < head.size);
      if (valid) {
        *reinterpret_cast<uint4*>(head.dq + query * head.token_stride + n * 8) =
            make_uint4(packed[0], packed[1], packed[2], packed[3]);
      }
    }
  }
}

// 64 queries to whose dQ an item adds.
struct QueryBlock {
  int index, number;  // in the sequence, and among all that this block of threads has formed
  float* sums;        // in memory
};

// One thread starts adding the sums to those in memory, or replacing these.
template <class Shape, bool kDropout>
__device__ inline void start_adding(const BackwardMemory<Shape, kDropout>& memory,
                                    const QueryBlock& block, bool replaces) {
  memory.sums_barriers().wait_full(block.number);
  if (replaces) {
    store_bytes(block.sums, memory.sums(block.number), Shape::kSumBytes);
  } else {
    add_floats(block.sums, memory.sums(block.number), Shape::kSumBytes);
  }
  commit_stores();
}

// One thread adds the sums of a block where other items follow. The buffer is free before the turn is passed.
template <class Shape, bool kDropout>
__device__ inline void take_turn(const BackwardMemory<Shape, kDropout>& memory, const Turns& turns,
                                 const QueryBlock& block) {
  turns.wait(block.index);
  start_adding(memory, block, turns.is_first(block.index));
  wait_reads();
  arrive(memory.sums_barriers().empty(block.number));
  wait_stores();
  turns.pass(block.index);
}

// One warp finishes a block: it adds the sums to those of other items, where there are any, reads all of them back, and
// writes dQ. The turn is not passed.
template <class Shape, bool kDropout>
__device__ inline void take_last_turn(const Params& p,
                                      const BackwardMemory<Shape, kDropout>& memory,
                                      const Turns& turns, int bh, const QueryBlock& block,
                                      bool is_only, Buffers<2> read_back, int num_read_back) {
  const bool leader = (threadIdx.x & 31) == 0;
  const uint32_t sums = memory.sums(block.number);
  if (leader) turns.wait(block.index);
  __syncwarp();
  memory.sums_barriers().wait_full(block.number);
  __syncwarp();
  if (!is_only) {
    if (leader) {
      start_adding(memory, block, /*replaces=*/false);
      wait_stores();
      expect_bytes(read_back.full(num_read_back), Shape::kSumBytes);
      load_bytes(sums, block.sums, Shape::kSumBytes, read_back.full(num_read_back));
    }
    read_back.wait_full(num_read_back);
  }
  __syncwarp();
  write_query_gradients<Shape, BackwardMemory<Shape, kDropout>>(p, bh, block.index * kTurnQueries,
                                                                sums);
  fence_shared_async();
  __syncwarp();
  if (leader) arrive(memory.sums_barriers().empty(block.number));
}

template <class Shape, bool kDropout, bool kDocuments>
__device__ inline void add_query_gradients(const Params& p,
                                           const BackwardMemory<Shape, kDropout>& memory,
                                           int group) {
  using Last = LastTurn<Shape, kDocuments>;
  constexpr int kFloats = kTurnQueries * Shape::D;
  const int num_blocks = (p.T + kTurnKeys - 1) / kTurnKeys * (kTurnKeys / kTurnQueries);
  const bool leader = (threadIdx.x & 31) == 0;
  int count = 0, num_read_back = 0;  // of blocks
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const int ticket = memory.item(i);
    // Lanes do not meet again by themselves after the leader's waits. One that is two phases early or late at
    // a barrier would not see it.
    __syncwarp();
    if (leader) arrive(memory.own().empty(i));
    if (ticket < 0) return;
    const Item item = item_of(p, ticket);
    const Steps<Shape, kDocuments> steps(p, item);
    const Turns turns(p, item);
    float* const of_slot =
        p.dq_sums + static_cast<int64_t>(item.bh % p.num_slots) * num_blocks * kFloats;
    const int begin = steps.begin, end = steps.end;
    const int first = begin + ((count ^ group) & 1);
    for (int block = first; block < end; block += Shape::kGroups) {
      const QueryBlock queries = {block, count + block - begin,
                                  of_slot + static_cast<int64_t>(block) * kFloats};
      const Last last(p, item, block);
      if (last.is_last) {
        take_last_turn(p, memory, turns, item.bh, queries, last.is_only, memory.read_back(group),
                       num_read_back);
        if (!last.is_only) ++num_read_back;
      } else if (leader) {
        take_turn(memory, turns, queries);
      }
      if constexpr (kDocuments) __syncwarp();
    }
    // Only a later head waits for what follows the last turns, so one fence is enough for all of them.
    if (kDocuments || item.tile == 0) {
      __threadfence();
      for (int block = first; block < end; block += Shape::kGroups) {
        const Last last(p, item, block);
        if (leader && last.is_last) turns.end(block);
      }
    }
    count += end - begin;
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
