// The kernels that write fp8 (fp8.cu, fp8_transpose.cu, the residual norm's forward) share this:
// where numbers come from and go to, rounding, and the largest magnitude. A thread works with
// pieces of eight neighbours.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/device/device.cuh"

namespace weft::cuda {

// The numbers that are quantized: inp; GELU of pre; or inp times GELU's derivative at pre.
enum class QuantizeKind { kPlain, kActivation, kActivationGradient };

struct QuantizeSource {
  const bf16 *inp, *pre;
  Activation activation;
};

// Pointers that are not there are null.
struct QuantizeTarget {
  uint8_t *rows, *transposed;
  bf16* value;
  float* partial_sums;       // (row tiles,C)
  float* scaling;            // (2)
  const unsigned* own_amax;  // bits; the scale follows from it where it is there
  unsigned* amax;            // bits of a non-negative number
  float largest;             // the format's largest number
};

// kernels/numbers/float8.h's fp8_scale.
__device__ inline float scale_of(float amax, float largest) {
  return amax > 0.0F && isfinite(amax) ? fminf(largest / amax, 0x1p126F) : 1.0F;
}

// Returns the scale; with `writes` a scale that follows from own_amax is written as well.
__device__ inline float scale_of_target(const QuantizeTarget& target, bool writes) {
  if (target.own_amax == nullptr) return target.scaling[1];
  const float scale = scale_of(__uint_as_float(*target.own_amax), target.largest);
  if (writes) {
    target.scaling[0] = 1.0F / scale;
    target.scaling[1] = scale;
  }
  return scale;
}

// Eight neighbours as they lie in memory, of the sources that a kind has. Loading all pieces of a
// thread before the first is used keeps more bytes in flight.
template <QuantizeKind kKind>
struct QuantizePiece {
  Vec<bf16> inp, pre;

  __device__ void load(const QuantizeSource& source, int64_t at) {
    if constexpr (kKind != QuantizeKind::kActivation) inp = load_vec(source.inp + at);
    if constexpr (kKind != QuantizeKind::kPlain) pre = load_vec(source.pre + at);
  }

  __device__ void values(Activation activation, float (&out)[8]) const {
    float derived[8];
    if constexpr (kKind != QuantizeKind::kActivation) unpack(inp, out);
    if constexpr (kKind == QuantizeKind::kPlain) return;
    unpack(pre, derived);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if constexpr (kKind == QuantizeKind::kActivation) {
        out[i] = activation_value<bf16>(derived[i], activation);
      } else {
        out[i] *= activation_derivative<bf16>(derived[i], activation);
      }
    }
  }
};

// The largest magnitude so far, as bits, whose order is that of the numbers; NaN is above infinity.
// The numbers of a plain source are in bf16 already, so that two are compared at once.
template <QuantizeKind kKind>
class LargestMagnitude {
 public:
  __device__ void add(const QuantizePiece<kKind>& piece, const float (&values)[8]) {
    if constexpr (kKind == QuantizeKind::kPlain) {
      const auto* pairs = reinterpret_cast<const unsigned*>(&piece.inp);
#pragma unroll
      for (int i = 0; i < 4; ++i) pair_ = __vmaxu2(pair_, pairs[i] & 0x7fff7fffu);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        asm("max.NaN.f32 %0, %0, %1;" : "+f"(magnitude_) : "f"(fabsf(values[i])));
    }
  }
  __device__ unsigned bits() const {
    if constexpr (kKind == QuantizeKind::kPlain) return max(pair_ << 16, pair_ & 0xffff0000u);
    return __float_as_uint(magnitude_);
  }
  __device__ bool is_finite() const { return bits() < 0x7f800000u; }

 private:
  unsigned pair_ = 0;
  float magnitude_ = 0.0F;
};

// Raises *amax to the largest of the block's numbers. A maximum does not depend on the order.
template <int kThreads>
__device__ inline void raise_amax(unsigned* amax, unsigned largest) {
  __shared__ unsigned of_warps[kThreads / 32];
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = largest;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  largest = threadIdx.x < kThreads / 32 ? of_warps[threadIdx.x] : 0;
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x == 0) atomicMax(amax, largest);
}

// Raises *amax to the largest of the warp's numbers. Most warps find that there has been a larger
// one.
__device__ inline void raise_amax_of_warp(unsigned* amax, unsigned largest) {
  largest = __reduce_max_sync(0xffffffffu, largest);
  if (threadIdx.x % 32 == 0 && largest > __ldcg(amax)) atomicMax(amax, largest);
}

// Makes NaN of infinite numbers, and changes no others.
template <int kCount>
__device__ inline void infinite_to_nan(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = fmaf(values[i], 0.0F, values[i]);
}

// Rounds four numbers. What is too large becomes the format's largest number.
template <__nv_fp8_interpretation_t kFormat>
__device__ inline unsigned round_4(const float* values, float scale) {
  const unsigned low =
      __nv_cvt_float2_to_fp8x2({values[0] * scale, values[1] * scale}, __NV_SATFINITE, kFormat);
  const unsigned high =
      __nv_cvt_float2_to_fp8x2({values[2] * scale, values[3] * scale}, __NV_SATFINITE, kFormat);
  return __byte_perm(low, high, 0x5410);
}

template <__nv_fp8_interpretation_t kFormat>
__device__ inline uint2 round_8(const float (&values)[8], float scale) {
  return make_uint2(round_4<kFormat>(values, scale), round_4<kFormat>(values + 4, scale));
}

// Four rows of eight bytes become eight columns of four bytes.
__device__ inline void transpose(const uint2 (&rows)[4], unsigned (&columns)[8]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned words[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) words[r] = half == 0 ? rows[r].x : rows[r].y;
    const unsigned low01 = __byte_perm(words[0], words[1], 0x5140);
    const unsigned low23 = __byte_perm(words[2], words[3], 0x5140);
    const unsigned high01 = __byte_perm(words[0], words[1], 0x7362);
    const unsigned high23 = __byte_perm(words[2], words[3], 0x7362);
    columns[4 * half] = __byte_perm(low01, low23, 0x5410);
    columns[4 * half + 1] = __byte_perm(low01, low23, 0x7632);
    columns[4 * half + 2] = __byte_perm(high01, high23, 0x5410);
    columns[4 * half + 3] = __byte_perm(high01, high23, 0x7632);
  }
}

}  // namespace weft::cuda
