// A kernel that does not end is found by the watch of a process that is alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/cuda/device/check.h"
#include "tests/needs_gpu.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/ranks/transport_group.h"

namespace weft {
namespace {

__global__ void spin_kernel(const volatile int* may_end) {
  while (*may_end == 0) {
  }
}

// Waits for the kernel as a step waits for the device, and exits with 0 if it ends.
[[noreturn]] void wait_and_exit(int may_end_now) {
  const std::unique_ptr<HostGroup> host = create_lone_host_group(
      {.timeout = std::chrono::seconds(2),
       .print_error = [](const std::string& message) { std::fputs(message.c_str(), stderr); }});
  const ProcessGroups groups = create_lone_process_groups(host.get());
  const std::unique_ptr<Backend> backend = create_cuda_backend(0);
  auto* may_end = static_cast<int*>(backend->allocate(sizeof(int), Memory::kPinnedHost));
  *may_end = may_end_now;
  spin_kernel<<<1, 1, 0, static_cast<cudaStream_t>(backend->native_stream(Stream::kCompute))>>>(
      may_end);
  CUDA_CHECK(cudaGetLastError());
  const EventId end = backend->create_event();
  backend->record(end, Stream::kCompute);
  groups.wait_for(*backend, end);
  std::exit(0);
}

TEST(GpuHang, IsExitTwelveWithTheOperation) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(wait_and_exit(1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(wait_and_exit(0), testing::ExitedWithCode(static_cast<int>(ExitCode::kHang)),
              "\\(the device, which ends a step\\) of iteration .* has not ended within");
}

}  // namespace
}  // namespace weft
