// The checks of the order between threads: the counter of work, and in builds without NDEBUG those
// of kernels/cuda/device/order_checks.cuh.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/order_checks.cuh"
#include "kernels/cuda/device/work_counter.h"
#include "kernels/cuda/hopper/async_copies.cuh"
#include "kernels/cuda/hopper/hopper_code.h"
#include "tests/needs_gpu.h"

namespace weft::cuda {
namespace {

TEST(WorkCounter, AnotherNumberThanZeroIsAnError) {
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const WorkCounter counter;
  EXPECT_NO_THROW(counter.check(stream));
  const uint32_t one = 1;
  CUDA_CHECK(cudaMemcpyAsync(counter.data(), &one, sizeof one, cudaMemcpyDefault, stream));
  EXPECT_THROW(counter.check(stream), std::logic_error);
  cudaStreamDestroy(stream);
}

// Waits for a phase of a barrier at which `num_missing` threads never arrive.
__global__ void wait_kernel(int num_missing) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ uint64_t barrier;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(&barrier));
  init_barrier(address, 1 + num_missing);
  fence_initialised_barriers();
  arrive(address);
  wait_barrier(address, 0);
#endif
}

// Requires that `num_missing` more threads have read than did.
__global__ void read_kernel(int num_missing) {
  __shared__ __align__(8) uint64_t count;
  const AccessCount reads{static_cast<uint32_t>(__cvta_generic_to_shared(&count))};
  if (threadIdx.x == 0) reads.init(static_cast<int>(blockDim.x) + num_missing);
  __syncthreads();
  reads.add();
  __syncthreads();
  reads.require(1);
}

// A warp fills two buffers in turns, another one empties them. The first one writes a buffer for
// the second time while `num_missing` lanes of the other one still read it: lane 0 has arrived for
// all.
__global__ void empty_early_kernel(int num_missing) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Pair = Buffers<2>;
  __shared__ __align__(8) uint64_t words[Pair::kNumWords];
  const Pair buffers{static_cast<uint32_t>(__cvta_generic_to_shared(words))};
  if (threadIdx.x == 0) {
    buffers.init(1, 1);
    fence_initialised_barriers();
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int use = 0; use < 5; ++use) {
    if (threadIdx.x < 32) {
      buffers.wait_empty(use);
      buffers.fill_by_warp(use);
    } else {
      buffers.wait_filled_by_warps(use);
      if (lane < 32 - num_missing) buffers.lanes_empty(use).add();
      if (lane == 0) arrive(buffers.empty(use));
    }
  }
#endif
}

// The same for a reader that comes while lanes of the warp that fills still write.
__global__ void fill_early_kernel(int num_missing) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Pair = Buffers<2>;
  __shared__ __align__(8) uint64_t words[Pair::kNumWords];
  const Pair buffers{static_cast<uint32_t>(__cvta_generic_to_shared(words))};
  if (threadIdx.x == 0) {
    buffers.init(1, 1);
    fence_initialised_barriers();
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int use = 0; use < 5; ++use) {
    if (threadIdx.x < 32) {
      buffers.wait_empty(use);
      if (lane < 32 - num_missing) buffers.lanes_full(use).add();
      if (lane == 0) arrive(buffers.full(use));
    } else {
      buffers.wait_filled_by_warps(use);
      buffers.empty_by_warp(use);
    }
  }
#endif
}

// A trap ends the context, so each kernel has a process of its own. Its exit code is 1 for an error
// of the launch.
[[noreturn]] void run_and_exit(void (*kernel)(int), int num_threads, int num_missing) {
  kernel<<<1, num_threads>>>(num_missing);
  std::exit(cudaDeviceSynchronize() == cudaSuccess ? 0 : 1);
}

class OrderChecks : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(OrderChecks, AWaitThatNeverEndsTraps) {
  if (!has_hopper_code()) GTEST_SKIP() << "the barrier is Hopper's";
  EXPECT_EXIT(run_and_exit(wait_kernel, 1, 0), testing::ExitedWithCode(0), "");
  if (!kChecksOrder) GTEST_SKIP() << "a build with NDEBUG has no checks, so the kernel would hang";
  EXPECT_EXIT(run_and_exit(wait_kernel, 1, 1), testing::ExitedWithCode(1), "");
}

TEST_F(OrderChecks, AWriterThatComesBeforeAReaderTraps) {
  EXPECT_EXIT(run_and_exit(read_kernel, 64, 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_and_exit(read_kernel, 64, 1), testing::ExitedWithCode(kChecksOrder ? 1 : 0), "");
}

TEST_F(OrderChecks, LanesThatStillReadOrWriteABufferTrap) {
  if (!has_hopper_code()) GTEST_SKIP() << "the barriers are Hopper's";
  const auto with_missing = testing::ExitedWithCode(kChecksOrder ? 1 : 0);
  EXPECT_EXIT(run_and_exit(empty_early_kernel, 64, 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_and_exit(empty_early_kernel, 64, 1), with_missing, "");
  EXPECT_EXIT(run_and_exit(fill_early_kernel, 64, 0), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run_and_exit(fill_early_kernel, 64, 1), with_missing, "");
}

}  // namespace
}  // namespace weft::cuda
