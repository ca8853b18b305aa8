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

// Counts the threads that have read a buffer in shared memory. Where the order of reads and the
// next write follows from products of a warpgroup, which no checker of races knows, the writer
// requires the count.
struct ReadCount {
  uint32_t address;

  __device__ void init() const {
    if constexpr (kChecksOrder) asm volatile("st.shared.u32 [%0], 0;" ::"r"(address) : "memory");
  }
  __device__ void add() const {
    if constexpr (kChecksOrder)
      asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address) : "memory");
  }
  __device__ void require(int count) const {
    if constexpr (kChecksOrder) {
      int now;
      asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(now) : "r"(address) : "memory");
      if (now < count) __trap();
    }
  }
};

}  // namespace weft::cuda
