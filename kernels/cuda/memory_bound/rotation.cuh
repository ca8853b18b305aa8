// Rotary positions on the device. Every kernel that turns a query or key has these functions, so that
// equal numbers turn to equal bits wherever it is done.
#pragma once

#include "kernels/cuda/memory_bound/device.cuh"

namespace weft::cuda {

struct RotationArgs {
  const float* angles = nullptr;             // (S,2,P); null where nothing turns
  const int32_t* document_bounds = nullptr;  // (B,T,2), or null
  int num_pairs = 0;
  bool interleaved = false;
};

inline RotationArgs rotation_args(const Rotation& rotation) {
  if (!rotation.angles) return {};
  return {rotation.angles.as<const float>(), rotation.document_bounds.as<const int32_t>(),
          static_cast<int>(rotation.angles.shape(2)), rotation.interleaved};
}

// Returns the cosines of a token's pairs, behind which the sines lie. `row` is b * T + token.
__device__ inline const float* angles_of(const RotationArgs& rotation, int64_t row, int token) {
  const int begin = rotation.document_bounds == nullptr ? 0 : rotation.document_bounds[2 * row];
  return rotation.angles + static_cast<int64_t>(token - begin) * 2 * rotation.num_pairs;
}

// Returns `x`, the first element of a pair, turned back, or the second one turned. For the others the sine is
// negative.
__device__ inline float turned(float x, float other, float cosine, float sine) {
  return __fmaf_rn(x, cosine, __fmul_rn(other, sine));
}

template <int kCount>
__device__ inline void load_floats(float (&values)[kCount], const float* data) {
#pragma unroll
  for (int i = 0; i < kCount; i += kCount % 4 == 0 ? 4 : 2) {
    if constexpr (kCount % 4 == 0) {
      const float4 four = *reinterpret_cast<const float4*>(data + i);
      values[i] = four.x;
      values[i + 1] = four.y;
      values[i + 2] = four.z;
      values[i + 3] = four.w;
    } else {
      const float2 two = *reinterpret_cast<const float2*>(data + i);
      values[i] = two.x;
      values[i + 1] = two.y;
    }
  }
}

// The turn of one vector of a query or key: cosines, and sines with the sign of each element.
template <typename T>
class VecTurn {
 public:
  static constexpr int kSize = Vec<T>::kSize;

  VecTurn() = default;
  // `angles` are those of the token; `vec` counts the vectors of the head. A vector that stays gets the angles of
  // another one.
  __device__ VecTurn(const RotationArgs& rotation, const float* angles, int vec, bool back)
      : interleaved_(rotation.interleaved) {
    const float sign = back ? -1.0F : 1.0F;
    if (rotation.interleaved) {
      constexpr int kPairs = kSize / 2;
      const int first = min(vec * kPairs, rotation.num_pairs - kPairs);
      float cosines[kPairs], sines[kPairs];
      load_floats(cosines, angles + first);
      load_floats(sines, angles + rotation.num_pairs + first);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        cosines_[i] = cosines[i / 2];
        sines_[i] = (i % 2 == 0 ? -sign : sign) * sines[i / 2];
      }
    } else {
      const bool is_first = vec * kSize < rotation.num_pairs;
      const int pair = vec * kSize - (is_first ? 0 : rotation.num_pairs);
      const int first = min(pair, rotation.num_pairs - kSize);
      load_floats(cosines_, angles + first);
      load_floats(sines_, angles + rotation.num_pairs + first);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sines_[i] *= is_first ? -sign : sign;
    }
  }

  // Tells whether a vector turns, and which one has the other elements of its pairs.
  __device__ static bool turns(const RotationArgs& rotation, int vec) {
    return vec * kSize < 2 * rotation.num_pairs;
  }
  __device__ static int partner(const RotationArgs& rotation, int vec) {
    if (rotation.interleaved) return vec;
    const int half = rotation.num_pairs / kSize;
    return vec < half ? vec + half : vec - half;
  }

  __device__ Vec<T> turned(const Vec<T>& vec, const Vec<T>& partner) const {
    float x[kSize], other[kSize];
    unpack(vec, x);
    unpack(partner, other);
#pragma unroll
    for (int i = 0; i < kSize; i += 2) {
      const float second = interleaved_ ? other[i] : other[i + 1];
      const float first = interleaved_ ? other[i + 1] : other[i];
      x[i] = cuda::turned(x[i], first, cosines_[i], sines_[i]);
      x[i + 1] = cuda::turned(x[i + 1], second, cosines_[i + 1], sines_[i + 1]);
    }
    return pack<T>(x);
  }

 private:
  float cosines_[kSize], sines_[kSize];
  bool interleaved_;
};

// Returns vector `vec` of a token's query or key, turned. load(i) reads vector `i` as it was.
template <typename T, class Load>
__device__ inline Vec<T> turned_vec(const RotationArgs& rotation, const float* angles, int vec,
                                    bool back, Load load) {
  const Vec<T> own = load(vec);
  if (!VecTurn<T>::turns(rotation, vec)) return own;
  return VecTurn<T>(rotation, angles, vec, back)
      .turned(own, load(VecTurn<T>::partner(rotation, vec)));
}

}  // namespace weft::cuda
