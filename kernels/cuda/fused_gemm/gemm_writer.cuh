// The part of a product on Hopper that takes finished tiles from shared memory, computes GELU or
// its derivative, and writes the results: three warps, each with two rows at a time.
#pragma once

#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/fused_gemm/gemm_memory.cuh"
#include "kernels/cuda/fused_gemm/gemm_tiles.cuh"
#include "kernels/cuda/hopper/warpgroup.cuh"

namespace weft::cuda::fused_gemm {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ inline uint4 load_words(uint32_t address) {
  uint4 w;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w)
               : "r"(address)
               : "memory");
  return w;
}
// Stores 16 bytes if `valid`, without a branch.
__device__ inline void store_words(void* data, uint4 w, bool valid) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; @p st.global.v4.u32 [%0], {%1,%2,%3,%4}; }" ::"l"(
          data),
      "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "r"(static_cast<int>(valid))
      : "memory");
}

template <typename Element>
__device__ inline float2 unpack_pair(uint32_t word) {
  if constexpr (kIsFp16<Element>) {
    return __half22float2(*reinterpret_cast<const __half2*>(&word));
  } else {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xFFFF0000u)};
  }
}

// One lane's part of the writing: 8 columns of each row. A warp takes every third piece of two
// rows. Its pointers move from piece to piece, and nothing branches between the rows of a piece,
// because three warps do the arithmetic of a whole tile while the next one is multiplied, and
// products with few terms wait for them.
template <typename Element, bool kBackward>
class Writer {
 public:
  static constexpr int kRows = 2;                    // in a piece
  static constexpr int kPieces = kTileM / kRows;     // in a tile
  static constexpr int kAhead = kAheadRows / kRows;  // pieces of `pre` on their way

  __device__ Writer(const Args& args, const GemmMemory& memory, int warp, Origin at)
      : warp_(warp), lane_(threadIdx.x & 31), row_bytes_(int64_t{args.N} * 2), memory_(memory) {
    const int row = warp * kRows, column = at.column + lane_ * 8;
    num_rows_ = column < args.N ? min(args.M - at.row, kTileM) - row : 0;
    const int64_t first = (at.row + row) * row_bytes_ + column * 2;
    out_ = static_cast<uint8_t*>(args.out) + first;
    pre_ = static_cast<uint8_t*>(args.pre) + first;
    num_ahead_ = num_rows_;
  }

  // Starts fetching the warp's next piece of `pre`. What lies beyond the matrix or the tile is not
  // read, but 0.
  __device__ void fetch(int slot) {
#pragma unroll
    for (int j = 0; j < kRows; ++j)
      copy_async(ahead(slot, j), pre_ + j * row_bytes_, j < num_ahead_);
    commit_copies();
    pre_ += kStep * row_bytes_;
    num_ahead_ -= kStep;
  }

  // Writes the warp's next piece, which is this one of the tile.
  __device__ void write(int piece, int slot) {
    uint4 results[kRows], pre[kRows];
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      results[j] =
          load_words(memory_.results(0) + (piece * kRows + j) * kResultRowBytes + lane_ * 16);
      if constexpr (kBackward) pre[j] = load_words(ahead(slot, j));
    }
#pragma unroll
    for (int j = 0; j < kRows; ++j) {
      const uint32_t r[4] = {results[j].x, results[j].y, results[j].z, results[j].w};
      const uint32_t p[4] = {pre[j].x, pre[j].y, pre[j].z, pre[j].w};
      uint32_t out[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float2 x = unpack_pair<Element>(r[c]);
        if constexpr (kBackward) {
          const float2 at = unpack_pair<Element>(p[c]);
          x.x *= activation_derivative<Element>(at.x, Activation::kGeluTanh);
          x.y *= activation_derivative<Element>(at.y, Activation::kGeluTanh);
          sums_[2 * c] += x.x, sums_[2 * c + 1] += x.y;  // The products of rows outside are 0.
          out[c] = pack<Element>(x.x, x.y);
        } else {
          out[c] = pack<Element>(activation_value<Element>(x.x, Activation::kGeluTanh),
                                 activation_value<Element>(x.y, Activation::kGeluTanh));
        }
      }
      if constexpr (!kBackward) store_words(pre_ + j * row_bytes_, results[j], j < num_rows_);
      store_words(out_ + j * row_bytes_, make_uint4(out[0], out[1], out[2], out[3]), j < num_rows_);
    }
    out_ += kStep * row_bytes_;
    if constexpr (!kBackward) pre_ += kStep * row_bytes_;
    num_rows_ -= kStep;
  }

  // Adds the sums of the three warps, in their order, and stores those of the tile's 128 rows. The
  // memory of the rows ahead serves for it: no copy is on its way between two tiles, and the
  // barriers order the others' accesses.
  __device__ void store_sums(const Args& args, Origin at) const {
    const uint32_t own = memory_.ahead(warp_) + lane_ * 32;
    store_floats(own, sums_[0], sums_[1], sums_[2], sums_[3]);
    store_floats(own + 16, sums_[4], sums_[5], sums_[6], sums_[7]);
    sync_writers();
    for (int i = (warp_ * 32 + lane_) * 2; i < kTileN; i += kWriters * 64) {
      float total[2] = {};
#pragma unroll
      for (int warp = 0; warp < kWriters; ++warp) {
        float of_warp[2];
        load_pair(of_warp, memory_.ahead(warp) + i * 4);
        total[0] += of_warp[0], total[1] += of_warp[1];
      }
      if (at.column + i < args.N && at.row < args.M) {
        float* to = args.column_sums + static_cast<int64_t>(at.row / kTileM) * args.N + at.column;
        *reinterpret_cast<float2*>(to + i) = make_float2(total[0], total[1]);
      }
    }
    sync_writers();
  }

 private:
  __device__ uint32_t ahead(int slot, int j) const {
    return memory_.ahead(warp_) + (slot * kRows + j) * kAheadRowBytes + lane_ * 16;
  }
  __device__ static void store_floats(uint32_t to, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(to), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
  }
  __device__ static void sync_writers() {
    asm volatile("bar.sync 1, %0;" ::"n"(32 * kWriters) : "memory");
  }

  static constexpr int kStep = kWriters * kRows;  // rows from one of the warp's pieces to the next

  int warp_, lane_;
  int64_t row_bytes_;
  GemmMemory memory_;
  uint8_t *out_, *pre_;       // the next piece to be written, and fetched
  int num_rows_, num_ahead_;  // rows from there to the end of the tile or the matrix
  float sums_[8] = {};
};

// Writes all tiles of this block.
template <typename Element, bool kBackward>
__device__ inline void write_tiles(const Args& args, const GemmMemory& memory, int warp) {
  using TileWriter = Writer<Element, kBackward>;
  constexpr int kAhead = TileWriter::kAhead, kPieces = TileWriter::kPieces;
  const bool leader = (threadIdx.x & 31) == 0;
  for (Tiles tiles(memory); tiles.has_one(); tiles.next()) {
    const Origin at = tiles.origin();
    const uint32_t phase = static_cast<uint32_t>(tiles.count()) & 1;
    TileWriter writer(args, memory, warp, at);
    // The loop below has a body for each slot, so that slots are constants there.
    if constexpr (kBackward) {
#pragma unroll
      for (int slot = 0; slot < kAhead; ++slot) writer.fetch(slot);
    }
    // Both warpgroups end together. Asking only before the second one's rows would cost a test for
    // each piece.
    static_assert(kGroups == 2);
    wait_barrier(memory.results_full(0), phase);
    wait_barrier(memory.results_full(1), phase);
#pragma unroll 1
    for (int first = warp; first < kPieces; first += kWriters * kAhead) {
#pragma unroll
      for (int slot = 0; slot < kAhead; ++slot) {
        const int piece = first + slot * kWriters;
        if (piece >= kPieces) break;
        if constexpr (kBackward) wait_copies<kAhead - 1>();
        writer.write(piece, slot);
        if constexpr (kBackward) writer.fetch(slot);
      }
      // The first group's rows are free after the turn that passes them.
      constexpr int kOfGroup = kPieces / kGroups;
      if (first < kOfGroup && first + kWriters * kAhead >= kOfGroup) {
        __syncwarp();
        if (leader) arrive(memory.results_empty(0));
      }
    }
    // Copies beyond the tile only write zeros; these must not come after the next tile's, nor after
    // the sums, which lie where other lanes' copies go.
    if constexpr (kBackward) wait_copies<0>();
    __syncwarp();
    if (leader) arrive(memory.results_empty(1));
    if constexpr (kBackward) {
      if (args.column_sums != nullptr) writer.store_sums(args, at);
    }
  }
}

#endif  // sm_90a

}  // namespace weft::cuda::fused_gemm
