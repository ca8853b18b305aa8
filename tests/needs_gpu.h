// Include it in a test program that needs a GPU: where none can be used, every test is skipped with
// the reason, or fails where WEFT_REQUIRE_GPU=1 promises a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/backend.h"

namespace weft::test {

class NeedsGpu : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo&) override {
    std::string why;
    if (num_cuda_devices(&why) > 0) return;
    const char* required = std::getenv("WEFT_REQUIRE_GPU");
    if (required != nullptr && std::string(required) == "1") {
      FAIL() << "WEFT_REQUIRE_GPU=1, but CUDA cannot be used: " << why;
    }
    GTEST_SKIP() << "no CUDA device: " << why;
  }
};

inline const bool kNeedsGpu = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NeedsGpu);
  return true;
}();

}  // namespace weft::test
