// Quantizing: one pass over the numbers writes them in fp8 by rows and transposed, and their column
// sums and largest number. Where the scale follows from the largest number itself, a pass before it
// finds that.
//
// A block takes a tile of 64 rows and 128 columns, a thread four rows of eight columns of it. The four
// bytes of a column make a word of the transposed tile, which goes through shared memory.
#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/check_shapes.h"
#include "kernels/cuda/memory_bound/device.cuh"
#include "kernels/cuda/memory_bound/gelu.cuh"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/float8.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTileRows = 64, kTileColumns = 128;
constexpr int kRows = 4, kColumns = 8;  // of a thread
constexpr int kThreadsOfRow = kTileColumns / kColumns;
constexpr int kWordsOfColumn = kTileRows / kRows;
static_assert(kThreads == kThreadsOfRow * kWordsOfColumn);

// The numbers that are quantized. Pointers that are not there are null.
template <typename T>
struct Source {
  const T *inp, *pre;
  Gelu gelu;
};

template <typename T>
struct Target {
  uint8_t *rows, *transposed;
  T* value;
  float* partial_sums;       // (row tiles,C)
  float* scaling;            // (2)
  const unsigned* own_amax;  // bits; the scale follows from it where it is there
  unsigned* amax;            // bits of a non-negative number
  float largest;             // of the format
  __nv_fp8_interpretation_t format;
};

// Loads 8 neighbours.
template <typename T>
__device__ inline void load_8(const T* data, float (&out)[8]) {
  if constexpr (sizeof(T) == 2) {
    unpack(load_vec(data), out);
  } else {
    float half[4];
    for (int i = 0; i < 2; ++i) {
      unpack(load_vec(data + 4 * i), half);
      for (int j = 0; j < 4; ++j) out[4 * i + j] = half[j];
    }
  }
}

template <typename T>
__device__ inline void store_8(T* data, const float (&values)[8]) {
  if constexpr (sizeof(T) == 2) {
    store_vec(data, pack<T>(values));
  } else {
    for (int i = 0; i < 8; ++i) data[i] = values[i];
  }
}

template <typename T>
__device__ inline void load_values(const Source<T>& source, int64_t at, float (&values)[8]) {
  if (source.pre == nullptr) return load_8(source.inp + at, values);
  float pre[8];
  load_8(source.pre + at, pre);
  if (source.inp == nullptr) {
    for (int i = 0; i < 8; ++i) values[i] = gelu_value<T>(pre[i], source.gelu);
  } else {
    load_8(source.inp + at, values);
    for (int i = 0; i < 8; ++i) values[i] *= gelu_derivative<T>(pre[i], source.gelu);
  }
}

// Returns the bits of |value|, whose order is that of the numbers; NaN is above infinity.
__device__ inline unsigned magnitude_bits(float value) {
  return __float_as_uint(value) & 0x7fffffffu;
}

// Raises *amax to the largest of the block's numbers. A maximum does not depend on the order.
__device__ inline void raise(unsigned* amax, unsigned largest) {
  __shared__ unsigned of_warps[kThreads / 32];
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kThreads / 32; ++i) largest = max(largest, of_warps[i]);
  atomicMax(amax, largest);
}

// kernels/float8.h's fp8_scale.
__device__ inline float scale_of(float amax, float largest) {
  return amax > 0.0F && isfinite(amax) ? fminf(largest / amax, 0x1p126F) : 1.0F;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    amax_kernel(unsigned* amax, Source<T> source, int64_t n) {
  unsigned largest = 0;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * 8;
#pragma unroll 4
  for (int64_t at = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) * 8; at < n;
       at += stride) {
    float values[8];
    load_values(source, at, values);
    for (int i = 0; i < 8; ++i) largest = max(largest, magnitude_bits(values[i]));
  }
  raise(amax, largest);
}

// Rounds two numbers. The product with 0 makes NaN of what is infinite, and changes nothing else.
template <__nv_fp8_interpretation_t kFormat>
__device__ inline unsigned round_pair_fp8(float first, float second, float scale) {
  const float2 pair = {fmaf(first, 0.0F, first * scale), fmaf(second, 0.0F, second * scale)};
  return __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, kFormat);
}

template <typename T, __nv_fp8_interpretation_t kFormat>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(Target<T> target, Source<T> source, int64_t N, int64_t C) {
  // The word of rows 4w to 4w+3 of a column lies at w ^ s, where s is the place of the column's thread:
  // so the threads of a warp write to different banks.
  __shared__ unsigned words[kTileColumns][kWordsOfColumn];
  __shared__ float sums[kThreads / 32][kTileColumns];
  const int s = threadIdx.x % kThreadsOfRow, w = threadIdx.x / kThreadsOfRow;
  const int64_t column = blockIdx.x * static_cast<int64_t>(kTileColumns) + s * kColumns;
  const int64_t row = blockIdx.y * static_cast<int64_t>(kTileRows) + w * kRows;
  float scale;
  if (target.own_amax != nullptr) {
    scale = scale_of(__uint_as_float(*target.own_amax), target.largest);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
      target.scaling[0] = 1.0F / scale;
      target.scaling[1] = scale;
    }
  } else {
    scale = target.scaling[1];
  }
  float values[kRows][kColumns] = {};
  const bool is_inside = row < N && column < C;  // both are multiples of 16
  if (is_inside) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_values(source, (row + r) * C + column, values[r]);
  }
  unsigned bytes[kRows][2];  // of a row: columns 0 to 3, 4 to 7
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float* v = values[r] + 4 * half;
      bytes[r][half] = round_pair_fp8<kFormat>(v[0], v[1], scale) |
                       round_pair_fp8<kFormat>(v[2], v[3], scale) << 16;
    }
    if (is_inside && target.rows != nullptr)
      *reinterpret_cast<uint2*>(target.rows + (row + r) * C + column) =
          make_uint2(bytes[r][0], bytes[r][1]);
    if (is_inside && target.value != nullptr)
      store_8(target.value + (row + r) * C + column, values[r]);
  }
  if (target.transposed != nullptr) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      // Four words of rows become four words of columns.
      const unsigned low01 = __byte_perm(bytes[0][half], bytes[1][half], 0x5140);
      const unsigned low23 = __byte_perm(bytes[2][half], bytes[3][half], 0x5140);
      const unsigned high01 = __byte_perm(bytes[0][half], bytes[1][half], 0x7362);
      const unsigned high23 = __byte_perm(bytes[2][half], bytes[3][half], 0x7362);
      unsigned(*out)[kWordsOfColumn] = words + s * kColumns + 4 * half;
      out[0][w ^ s] = __byte_perm(low01, low23, 0x5410);
      out[1][w ^ s] = __byte_perm(low01, low23, 0x7632);
      out[2][w ^ s] = __byte_perm(high01, high23, 0x5410);
      out[3][w ^ s] = __byte_perm(high01, high23, 0x7632);
    }
    __syncthreads();
    // Sixteen threads write the 64 bytes of a column.
    const int word = threadIdx.x % kWordsOfColumn;
    const int64_t at = blockIdx.y * static_cast<int64_t>(kTileRows) + word * kRows;
#pragma unroll
    for (int i = 0; i < kTileColumns / (kThreads / kWordsOfColumn); ++i) {
      const int c =
          i * (kThreads / kWordsOfColumn) + static_cast<int>(threadIdx.x) / kWordsOfColumn;
      const int64_t global = blockIdx.x * static_cast<int64_t>(kTileColumns) + c;
      if (global < C && at < N)
        *reinterpret_cast<unsigned*>(target.transposed + global * N + at) =
            words[c][word ^ (c / kColumns)];
    }
  }
  if (target.partial_sums != nullptr) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      float sum = (values[0][c] + values[1][c]) + (values[2][c] + values[3][c]);
      sum += __shfl_xor_sync(0xffffffffu, sum, kThreadsOfRow);
      if (threadIdx.x % 32 < kThreadsOfRow) sums[threadIdx.x / 32][s * kColumns + c] = sum;
    }
    __syncthreads();
    const int64_t global = blockIdx.x * static_cast<int64_t>(kTileColumns) + threadIdx.x;
    if (threadIdx.x < kTileColumns && global < C) {
      float sum = sums[0][threadIdx.x];
      for (int i = 1; i < kThreads / 32; ++i) sum += sums[i][threadIdx.x];
      target.partial_sums[blockIdx.y * C + global] = sum;
    }
  }
  if (target.amax != nullptr) {
    unsigned largest = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) largest = max(largest, magnitude_bits(values[r][c]));
    }
    raise(target.amax, largest);
  }
}

// A warp updates one tensor.
__global__ void update_scaling_kernel(float* states, float* amaxes, int64_t n, int64_t stride,
                                      int64_t length, int64_t slot, float largest,
                                      bool uses_maximum) {
  const int64_t i = (blockIdx.x * static_cast<int64_t>(kThreads) + threadIdx.x) / 32;
  if (i >= n) return;
  const int lane = threadIdx.x % 32;
  float* state = states + i * stride;
  float* history = state + 2;
  const float amax = isfinite(amaxes[i]) ? amaxes[i] : 0.0F;
  float chosen = amax;
  if (uses_maximum) {
    for (int64_t k = lane; k < length; k += 32)
      if (k != slot) chosen = fmaxf(chosen, history[k]);
    chosen = warp_max(chosen);
  }
  __syncwarp();
  if (lane != 0) return;
  history[slot] = amax;
  amaxes[i] = 0.0F;
  if (chosen == 0.0F) {
    if (state[1] == 0.0F) state[0] = state[1] = 1.0F;  // the state is new: no product may become 0
    return;
  }
  state[1] = scale_of(chosen, largest);
  state[0] = 1.0F / state[1];
}

constexpr int64_t kAmaxBytes = 256;  // at the beginning of the scratch

template <typename T>
void launch(cudaStream_t stream, const Quantize& args, const Source<T>& source, Target<T> target,
            int64_t N, int64_t C, unsigned* own_amax) {
  if (args.derives_scale) {
    CUDA_CHECK(cudaMemsetAsync(own_amax, 0, sizeof *own_amax, stream));
    const auto blocks = static_cast<unsigned>(
        std::min<int64_t>(ceil_div(N * C, kThreads * 8), 8 * num_multiprocessors()));
    amax_kernel<<<blocks, kThreads, 0, stream>>>(own_amax, source, N * C);
    target.own_amax = own_amax;
  }
  const dim3 grid(grid_size(ceil_div(C, kTileColumns)),
                  static_cast<unsigned>(ceil_div(N, kTileRows)));
  if (target.format == __NV_E4M3) {
    quantize_kernel<T, __NV_E4M3><<<grid, kThreads, 0, stream>>>(target, source, N, C);
  } else {
    quantize_kernel<T, __NV_E5M2><<<grid, kThreads, 0, stream>>>(target, source, N, C);
  }
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace

int64_t quantize_scratch_bytes(int64_t N, int64_t C) {
  return kAmaxBytes + ceil_div(N, kTileRows) * C * static_cast<int64_t>(sizeof(float));
}

void quantize(cudaStream_t stream, const Quantize& args, void* scratch) {
  const Tensor& like = args.inp ? args.inp : args.pre;
  const int64_t N = num_rows(like), C = num_columns(like);
  const DType format = (args.rows ? args.rows : args.transposed).dtype();
  auto* partial_sums = reinterpret_cast<float*>(static_cast<char*>(scratch) + kAmaxBytes);
  dispatch(like.dtype(), [&](auto type) {
    using T = decltype(type);
    const Source<T> source{args.inp.as<const T>(), args.pre.as<const T>(), args.gelu};
    const Target<T> target{.rows = args.rows.as<uint8_t>(),
                           .transposed = args.transposed.as<uint8_t>(),
                           .value = args.value.as<T>(),
                           .partial_sums = args.column_sums ? partial_sums : nullptr,
                           .scaling = args.scaling.as<float>(),
                           .own_amax = nullptr,
                           .amax = args.amax.as<unsigned>(),
                           .largest = float8_format(format).largest,
                           .format = format == DType::kFloat8E4M3 ? __NV_E4M3 : __NV_E5M2};
    launch(stream, args, source, target, N, C, static_cast<unsigned*>(scratch));
  });
  if (args.column_sums)
    sum_partials(stream, {args.column_sums.as<float>()}, partial_sums, ceil_div(N, kTileRows), C, C,
                 args.accumulate);
}

void update_fp8_scaling(cudaStream_t stream, const Fp8ScalingUpdate& args) {
  const int64_t n = args.states.shape(0);
  const float largest =
      std::ldexp(float8_format(args.format).largest, -static_cast<int>(args.margin));
  update_scaling_kernel<<<grid_size(ceil_div(n * 32, kThreads)), kThreads, 0, stream>>>(
      args.states.as<float>(), args.amaxes.as<float>(), n, args.states.shape(1), args.history_len,
      args.slot, largest, args.uses_maximum);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
