// A warpgroup's threads find their place in a block, wait for each other and access shared memory
// by these functions.
#pragma once

#include <cstdint>

namespace weft::cuda {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Returns `x`, which is equal in all lanes of a warp, in a form that the compiler knows to be so.
__device__ inline int uniform(int x) { return __shfl_sync(0xFFFFFFFFu, x, 0); }
// Returns the index of this thread's warpgroup, in that form.
__device__ inline int warpgroup_index() { return uniform(static_cast<int>(threadIdx.x) / 128); }
__device__ inline void sync_warpgroup() {
  asm volatile("bar.sync %0, 128;" ::"r"(1 + static_cast<int>(threadIdx.x) / 128) : "memory");
}

// Stores four matrices of 8 x 8 numbers as tensor cores hold them; lane i has the address of row i
// of all.
__device__ inline void store_matrices(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

__device__ inline uint32_t load_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}
__device__ inline float load_float(uint32_t address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
  return x;
}
__device__ inline void store_quad(uint32_t address, const float (&x)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(address), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}
__device__ inline void store_float(uint32_t address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ inline void load_pair(float (&x)[2], uint32_t address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(address));
}

#endif  // sm_90a

}  // namespace weft::cuda
