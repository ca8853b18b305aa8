// NCCL between two GPUs, whose ranks are threads.
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "tests/needs_gpu.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "trainer/parallel/nccl_world.h"

namespace weft {
namespace {

// NCCL keeps what is called between the begin and the end of a group of transfers, so a group that
// stayed open would keep all later operations.
TEST(Nccl, AFailedExchangeLeavesNoGroupOpen) {
  if (num_cuda_devices() < 2) {
    if (test::num_promised_gpus() >= 2) FAIL() << "WEFT_REQUIRE_GPU promises two GPUs";
    GTEST_SKIP() << "it needs two GPUs";
  }
  run_ranks(2, [](HostGroup& host) {
    const std::unique_ptr<Backend> backend = create_cuda_backend(host.rank());
    const std::unique_ptr<NcclWorld> world = create_nccl_world(host, *backend);
    const std::unique_ptr<Communicator> pair = world->split({0, 1}, "pipeline", true);
    auto* data = static_cast<float*>(backend->allocate(sizeof(float), Memory::kPinnedHost));
    *data = static_cast<float>(1 + host.rank());
    const Tensor tensor(data, DType::kFloat32, {1});
    const std::vector<Transfer> transfers = {{.tensor = tensor, .peer = 7, .sends = true}};
    EXPECT_THROW(pair->exchange(transfers, Stream::kCompute), std::logic_error);
    pair->all_reduce(tensor, Reduce::kSum, Stream::kCompute);
    backend->synchronize();
    EXPECT_EQ(*data, 3.0F);
    host.all_gather("");  // No rank leaves before the other one has its sum.
    backend->release(data, Memory::kPinnedHost);
  });
}

}  // namespace
}  // namespace weft
