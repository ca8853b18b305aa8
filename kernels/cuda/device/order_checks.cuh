// Checks of the order between threads, in builds without NDEBUG: a kernel that breaks it, or hangs,
// traps, which is an error of its launch. A release build has no instruction of them.
#pragma once

#include <cstdint>

namespace weft::cuda {

#ifdef NDEBUG
constexpr bool kChecksOrder = false;
#else
constexpr bool kChecksOrder = true;
#endif

// Ends a wait that lasts longer than 2 s. It lies beside the wait's loop, which calls check() after
// each try in vain.
class WaitLimit {
 public:
  __device__ void check() {
    if constexpr (kChecksOrder) {
      constexpr uint64_t kLimitNs = 2'000'000'000;
      const uint64_t now = nanoseconds();
      if (begin_ == 0) begin_ = now;
      if (now - begin_ > kLimitNs) __trap();
    }
  }

 private:
  __device__ static uint64_t nanoseconds() {
    uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
  }

  uint64_t begin_ = 0;
};

// Counts the threads that have had access to a buffer in shared memory, in 8 bytes beside it. One
// lane of a warp, or products of a warpgroup, can tell the other side for all lanes that they are
// through with it, an order that no checker of races knows. So the other side requires the count.
struct AccessCount {
  uint32_t address;  // the count, then the threads of a use

  __device__ void init(int threads_of_use) const {
    if constexpr (kChecksOrder)
      asm volatile("st.shared.v2.u32 [%0], {0, %1};" ::"r"(address), "r"(threads_of_use)
                   : "memory");
  }
  __device__ void add(int num_threads = 1) const {
    if constexpr (kChecksOrder)
      asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(num_threads) : "memory");
  }
  // Traps if fewer threads than those of `num_uses` uses have been counted.
  __device__ void require(int num_uses) const {
    if constexpr (kChecksOrder) {
      uint32_t count, threads_of_use;
      asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];"
                   : "=r"(count), "=r"(threads_of_use)
                   : "r"(address)
                   : "memory");
      if (count < num_uses * threads_of_use) __trap();
    }
  }
};

}  // namespace weft::cuda
