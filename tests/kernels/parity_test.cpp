// Compares every CUDA operation with the CPU's, and with itself: equal calls give equal bits.
//
// The mma.sync attention, which serves every GPU but Hopper, runs on Hopper with
// WEFT_ATTENTION=mma_sync.
#include <gtest/gtest.h>

#include <memory>

#include "tests/kernels/op_case.h"
#include "tests/needs_gpu.h"

namespace weft::test {
namespace {

class BackendParity : public testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (num_cuda_devices() > 0) cuda_ = create_cuda_backend(0, "");
    cpu_ = create_cpu_backend();
  }
  static void TearDownTestSuite() {
    cuda_.reset();
    cpu_.reset();
  }

  static std::unique_ptr<Backend> cpu_, cuda_;
};

std::unique_ptr<Backend> BackendParity::cpu_;
std::unique_ptr<Backend> BackendParity::cuda_;

TEST_P(BackendParity, CudaMatchesCpu) {
  const Outputs cuda = GetParam().run(*cuda_);
  const auto tolerance = [](DType x) { return device_tolerance(x, GetParam().accuracy); };
  EXPECT_EQ(differences(cuda, GetParam().run(*cpu_), tolerance), "");
}

TEST_P(BackendParity, CudaRepeatsItsBits) {
  const Outputs first = GetParam().run(*cuda_), second = GetParam().run(*cuda_);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].values, second[i].values) << first[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackendParity, testing::ValuesIn(all_cases(Sizes::kDevice)), name_of);

}  // namespace
}  // namespace weft::test
