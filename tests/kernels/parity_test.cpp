// Compares every CUDA operation with the CPU's, and with itself: equal calls give equal bits.
//
// Without a CUDA device the tests are skipped with the reason; with WEFT_REQUIRE_GPU=1 that is a
// failure.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/kernels/op_case.h"

namespace weft::test {
namespace {

class BackendParity : public testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (num_cuda_devices(&why_no_device_) > 0) cuda_ = create_cuda_backend(0, "");
    cpu_ = create_cpu_backend();
  }
  static void TearDownTestSuite() {
    cuda_.reset();
    cpu_.reset();
  }
  void SetUp() override {
    if (cuda_ != nullptr) return;
    const char* required = std::getenv("WEFT_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") {
      FAIL() << "WEFT_REQUIRE_GPU=1, but CUDA cannot be used: " << why_no_device_;
    }
    GTEST_SKIP() << "no CUDA device: " << why_no_device_;
  }

  static std::unique_ptr<Backend> cpu_, cuda_;
  static std::string why_no_device_;
};

std::unique_ptr<Backend> BackendParity::cpu_;
std::unique_ptr<Backend> BackendParity::cuda_;
std::string BackendParity::why_no_device_;

TEST_P(BackendParity, CudaMatchesCpu) {
  const Outputs cuda = GetParam().run(*cuda_);
  EXPECT_EQ(differences(cuda, GetParam().run(*cpu_), device_tolerance), "");
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
