// Include it in a test program that needs a GPU: where none can be used, every test is skipped with
// the reason, or fails where WEFT_REQUIRE_GPU promises a GPU. Its value is the number of GPUs that
// are promised: tests that need more than one skip with fewer, and fail where so many are promised.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "kernels/backend.h"

namespace weft::test {

inline int num_promised_gpus() {
  const char* promised = std::getenv("WEFT_REQUIRE_GPU");
  return promised == nullptr ? 0 : std::atoi(promised);
}

class NeedsGpu : public testing::EmptyTestEventListener {
 public:
  // A kernel that hangs ends the program by SIGALRM: no test takes minutes.
  static constexpr unsigned kLongestTestS = 600;
  void OnTestEnd(const testing::TestInfo&) override { ::alarm(0); }
  void OnTestStart(const testing::TestInfo&) override {
    ::alarm(kLongestTestS);
    std::string why;
    if (num_cuda_devices(&why) > 0) return;
    if (num_promised_gpus() > 0) {
      FAIL() << "WEFT_REQUIRE_GPU promises a GPU, but CUDA cannot be used: " << why;
    }
    GTEST_SKIP() << "no CUDA device: " << why;
  }
};

inline const bool kNeedsGpu = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NeedsGpu);
  return true;
}();

}  // namespace weft::test
