// Rotary positions where queries, and the gradients of queries and keys, pass through shared memory in 16
// bits: turning them there saves passes over them in memory.
#pragma once

#include "kernels/cuda/attention/params.h"

namespace weft::cuda::attention {

__device__ inline uint4 load_chunk(uint32_t address) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(address)
               : "memory");
  return words;
}

__device__ inline void store_chunk(uint32_t address, const uint4& words) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(words.x), "r"(words.y),
               "r"(words.z), "r"(words.w)
               : "memory");
}

// A warp's turn of eight rows of D elements, in chunks of 8 elements: D / 32 a lane. The angles are loaded when
// it is made, which is best done before a wait. Tokens from p.T on have the angles of the last one.
template <typename Element, int D>
class EightRows {
 public:
  static constexpr int kChunks = D / 8, kUnits = D / 32;

  __device__ EightRows(const Params& p, int b, int first_token, bool back) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int token = min(first_token + row(i), p.T - 1);
      const int64_t sample_row = static_cast<int64_t>(b) * p.T + token;
      turns_[i] =
          VecTurn<Element>(p.rotation, angles_of(p.rotation, sample_row, token), chunk(i), back);
    }
  }

  // The place of this lane's i-th chunk.
  __device__ static int row(int i) { return unit(i) / kChunks; }
  __device__ static int chunk(int i) { return unit(i) % kChunks; }

  // Returns this lane's i-th chunk after its turn. address(chunk) is where one of its row lies.
  template <class Address>
  __device__ uint4 turned(const Params& p, int i, Address address) const {
    const uint4 own = load_chunk(address(chunk(i)));
    if (!VecTurn<Element>::turns(p.rotation, chunk(i))) return own;
    const uint4 partner = load_chunk(address(VecTurn<Element>::partner(p.rotation, chunk(i))));
    const Vec<Element> vec = turns_[i].turned(*reinterpret_cast<const Vec<Element>*>(&own),
                                              *reinterpret_cast<const Vec<Element>*>(&partner));
    return *reinterpret_cast<const uint4*>(&vec);
  }

 private:
  __device__ static int unit(int i) { return i * 32 + static_cast<int>(threadIdx.x & 31); }

  VecTurn<Element> turns_[kUnits];
};

}  // namespace weft::cuda::attention
