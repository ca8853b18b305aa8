// Pieces of rows that a thread has: a vector of 16 bytes, or one number (kSize == 1) where rows
// begin anywhere.
#pragma once

#include "kernels/cuda/device/device.cuh"

namespace weft::cuda {

// Calls function(std::integral_constant<int, kSize>{}) with the size of the pieces of rows of n
// numbers.
template <typename T, typename Function>
void choose_piece(int64_t n, Function function) {
  if (n % Vec<T>::kSize == 0) {
    function(std::integral_constant<int, Vec<T>::kSize>{});
  } else {
    function(std::integral_constant<int, 1>{});
  }
}

template <typename T, int kSize>
__device__ inline void load_piece(const T* data, float (&values)[kSize]) {
  if constexpr (kSize == 1) {
    values[0] = static_cast<float>(*data);
  } else {
    unpack(load_vec(data), values);
  }
}

template <typename T, int kSize>
__device__ inline void store_piece(T* data, const float (&values)[kSize]) {
  if constexpr (kSize == 1) {
    *data = T(values[0]);
  } else {
    store_vec(data, pack<T>(values));
  }
}

template <int kSize, typename T>
__device__ inline void copy_piece(T* to, const T* from) {
  if constexpr (kSize == 1) {
    *to = *from;
  } else {
    store_vec(to, load_vec(from));
  }
}

}  // namespace weft::cuda
