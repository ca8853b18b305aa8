// The part of backward on Hopper that adds an item's dQ to those of other items: one warp for each
// warpgroup brings the sums of its blocks to memory when their turn has come (turns.cuh), while the
// warpgroup goes on. The last item's turn reads the finished sums back and writes dQ.
#pragma once

#include "kernels/cuda/attention/backward.cuh"
#include "kernels/cuda/attention/backward_memory.cuh"

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
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until this thread's stores and additions have read shared memory.
__device__ inline void wait_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Waits until they are in memory.
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// The sums of dQ of 64 queries as a warpgroup's threads held them. A lane takes 8 columns of two rows at a
// time: chunk `n` of the rows that threads 4 * quad to 4 * quad + 3 share. Two lanes share the 32 bytes that
// memory moves at once.
template <class Shape>
struct QuerySums {
  using Element = typename Shape::Element;
  const Params& p;
  HeadView<Shape> head;
  int b, first_query;
  uint32_t sums;

  // Loads the k-th pair of columns of both rows.
  __device__ void load(float (&v)[4], int n, int quad, int k) const {
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(sums + (n * 128 + quad * 4 + k) * 16)
                 : "memory");
  }
  __device__ uint32_t rounded(const float (&v)[4], int half) const {
    return pack<Element>(v[2 * half] * p.scale, v[2 * half + 1] * p.scale);
  }
  __device__ int query(int quad, int half) const {
    return first_query + quad / 8 * 16 + half * 8 + quad % 8;
  }
  __device__ void store(int n, int quad, const uint32_t (&packed)[2][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t(&x)[4] = packed[half];
      const bool valid = query(quad, half) < p.T && (!Shape::kPadded || n * 8 < head.size);
      if (valid) {
        *reinterpret_cast<uint4*>(head.dq + query(quad, half) * head.token_stride + n * 8) =
            make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }

  // Writes the gradients of a chunk.
  __device__ void write(int n, int quad) const {
    uint32_t packed[2][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float v[4];
      load(v, n, quad, k);
#pragma unroll
      for (int half = 0; half < 2; ++half) packed[half][k] = rounded(v, half);
    }
    store(n, quad, packed);
  }

  // Loads kCount cosines and sines of the pairs from `pair` on, for both rows.
  template <int kCount>
  __device__ void load_angles(float (&cosines)[2][kCount], float (&sines)[2][kCount], int quad,
                              int pair) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = min(query(quad, half), p.T - 1);
      const float* angles = angles_of(p.rotation, static_cast<int64_t>(b) * p.T + token, token);
      load_floats(cosines[half], angles + pair);
      load_floats(sines[half], angles + p.rotation.num_pairs + pair);
    }
  }
  // Turns back the rounded pair (a, b).
  __device__ static void turn_back(float& a, float& b, float cosine, float sine) {
    const float old_a = a;
    a = turned(a, b, cosine, sine);
    b = turned(b, old_a, cosine, -sine);
  }

  // Writes a chunk whose elements are the first of their pairs, and that of the second ones, turned back.
  __device__ void write_turned_back(int n, int quad) const {
    const int partner = n + p.rotation.num_pairs / 8;
    float cosines[2][8], sines[2][8];
    load_angles(cosines, sines, quad, n * 8);
    uint32_t first[2][4], second[2][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float v[4], w[4];
      load(v, n, quad, k);
      load(w, partner, quad, k);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 x = widen_packed<Element>(rounded(v, half));
        float2 y = widen_packed<Element>(rounded(w, half));
        turn_back(x.x, y.x, cosines[half][2 * k], sines[half][2 * k]);
        turn_back(x.y, y.y, cosines[half][2 * k + 1], sines[half][2 * k + 1]);
        first[half][k] = pack<Element>(x.x, x.y);
        second[half][k] = pack<Element>(y.x, y.y);
      }
    }
    store(n, quad, first);
    store(partner, quad, second);
  }

  // The same for pairs of neighbours.
  __device__ void write_neighbours_turned_back(int n, int quad) const {
    float cosines[2][4], sines[2][4];
    load_angles(cosines, sines, quad, n * 4);
    uint32_t packed[2][4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float v[4];
      load(v, n, quad, k);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float2 x = widen_packed<Element>(rounded(v, half));
        turn_back(x.x, x.y, cosines[half][k], sines[half][k]);
        packed[half][k] = pack<Element>(x.x, x.y);
      }
    }
    store(n, quad, packed);
  }
};

// Writes dQ of 64 queries.
template <class Shape, bool kRotary>
__device__ inline void write_query_gradients(const Params& p, int bh, int first_query,
                                             uint32_t sums) {
  const QuerySums<Shape> queries{p, HeadView<Shape>(p, bh), bh / p.H, first_query, sums};
  const int lane = threadIdx.x & 31;
  if constexpr (!kRotary) {
#pragma unroll 1
    for (int i = lane; i < 32 * (Shape::D / 8); i += 32)
      queries.write(i / 64 * 2 + (i & 1), i / 2 % 32);
    return;
  }
  const RotationArgs& rotation = p.rotation;
  // The chunks that turn, and those that are written with their partners.
  const int num_turned = rotation.num_pairs / (rotation.interleaved ? 4 : 8);
  const int num_partners = rotation.interleaved ? 0 : num_turned;
  const int num_chunks = Shape::D / 8 - num_partners;
#pragma unroll 1
  for (int i = lane; i < (num_chunks + 1) / 2 * 64; i += 32) {
    const int n = i / 64 * 2 + (i & 1), quad = i / 2 % 32;
    if (n >= num_chunks) continue;
    if (n >= num_turned) {
      queries.write(n + num_partners, quad);
    } else if (rotation.interleaved) {
      queries.write_neighbours_turned_back(n, quad);
    } else {
      queries.write_turned_back(n, quad);
    }
  }
}

template <class Shape, bool kDropout, bool kDocuments, bool kRotary>
__device__ inline void add_query_gradients(const Params& p,
                                           const BackwardMemory<Shape, kDropout>& memory,
                                           int group) {
  constexpr int kFloats = kTurnQueries * Shape::D;
  const int num_blocks = (p.T + kTurnKeys - 1) / kTurnKeys * (kTurnKeys / kTurnQueries);
  const uint32_t sums = memory.sums(group);
  const Buffers<1> barriers = memory.sums_barriers(group);
  const bool leader = (threadIdx.x & 31) == 0;
  int count = 0, num_own = 0, num_read_back = 0;  // of blocks
  for (int i = 0;; ++i) {
    memory.own().wait_full(i);
    const int ticket = memory.item(i);
    __syncwarp();
    if (leader) arrive(memory.own().empty(i));
    if (ticket < 0) return;
    const Item item = item_of(p, ticket);
    const Steps<Shape, kDocuments> steps(p, item);
    for (int block = steps.begin * Shape::kBlocks; block < steps.end * Shape::kBlocks; ++block) {
      if (count++ % Shape::kGroups != group) continue;
      const int first_query = block * kTurnQueries;
      const Turn turn(p, item, block);
      const int step_query = block / Shape::kBlocks * Shape::kStep;
      const int first_tile =
          kDocuments ? uniform(first_key_of(p, item.bh / p.H, step_query)) / kTurnKeys : 0;
      const bool is_last = item.tile == first_tile, is_only = is_last && turn.is_first();
      float* of_slot =
          p.dq_sums + (static_cast<int64_t>(item.bh % p.num_slots) * num_blocks + block) * kFloats;
      // Lanes do not meet again by themselves after the leader's wait. All must have seen that the sums are
      // there before the leader lets the next ones in: a lane that is two phases late would wait for ever.
      if (leader) turn.wait();
      __syncwarp();
      barriers.wait_full(num_own);
      __syncwarp();
      if (leader && !is_only) {
        if (turn.is_first()) {
          store_bytes(of_slot, sums, Shape::kSumBytes);
        } else {
          add_floats(of_slot, sums, Shape::kSumBytes);
        }
        commit_stores();
      }
      if (is_last) {
        if (!is_only) {
          if (leader) {
            wait_stores();
            expect_bytes(memory.read_back(group), Shape::kSumBytes);
            load_bytes(sums, of_slot, Shape::kSumBytes, memory.read_back(group));
          }
          wait_barrier(memory.read_back(group), num_read_back++ & 1);
        }
        __syncwarp();
        write_query_gradients<Shape, kRotary>(p, item.bh, first_query, sums);
        fence_shared_async();
        __syncwarp();
        if (leader) arrive(barriers.empty(num_own));
      } else if (leader) {
        wait_reads();
        arrive(barriers.empty(num_own));
        wait_stores();
      }
      if (leader) turn.pass(is_last);
      __syncwarp();
      ++num_own;
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::attention
