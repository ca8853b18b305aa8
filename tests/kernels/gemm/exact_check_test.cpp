// Algorithms that compute wrongly do not pass the check that stands before the table.
#include "kernels/cuda/gemm/exact_check.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/gemm/gemm.h"
#include "tests/needs_gpu.h"

namespace weft::cuda {
namespace {

// Sizes that are no multiples of a tile.
constexpr GemmProblem kProblem{.m = 328,
                               .n = 264,
                               .k = 1096,
                               .transpose_b = true,
                               .inputs = DType::kBFloat16,
                               .output = DType::kFloat32};

class ExactCheckTest : public testing::Test {
 protected:
  void SetUp() override {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    workspace_ = std::make_unique<TemporaryMemory>(Gemm::kWorkspaceBytes);
    gemm_ = std::make_unique<Gemm>(stream_, "test");
    gemm_->set_workspace(workspace_->data());
  }
  void TearDown() override {
    gemm_.reset();
    workspace_.reset();
    cudaStreamDestroy(stream_);
  }

  cublasStatus_t run(const GemmProblem& problem, const GemmOperands& operands) {
    gemm_->run(problem, operands);
    return CUBLAS_STATUS_SUCCESS;
  }
  // Adds up kProblem in another order than the library's choice: in two parts.
  cublasStatus_t run_in_two_parts(GemmOperands operands) {
    GemmProblem first = kProblem, second = kProblem;
    first.k = 600;
    second.k = kProblem.k - first.k;
    second.accumulate = true;
    run(first, operands);
    operands.a = static_cast<const char*>(operands.a) + first.k * kProblem.m * 2;
    operands.b = static_cast<const char*>(operands.b) + first.k * kProblem.n * 2;
    return run(second, operands);
  }
  // Overwrites two bytes.
  void damage(void* data, int64_t offset_bytes, int value) {
    CUDA_CHECK(cudaMemsetAsync(static_cast<char*>(data) + offset_bytes, value, 2, stream_));
  }
  bool agrees(const GemmProblem& problem, const GemmRun& candidate) {
    const TemporaryMemory disturbed(1 << 20);
    const ExactCheck check{.stream = stream_,
                           .problem = problem,
                           .workspace = workspace_->data(),
                           .workspace_bytes = Gemm::kWorkspaceBytes,
                           .disturb = [&](cudaStream_t stream) {
                             CUDA_CHECK(cudaMemsetAsync(disturbed.data(), 0, 1 << 20, stream));
                           }};
    return agree(
        check, [&](const GemmOperands& o) { return run(problem, o); }, candidate);
  }
  // Returns whether the right product passes after `change` was done to it.
  bool passes_after(const std::function<void(const GemmOperands&)>& change,
                    GemmProblem problem = kProblem) {
    return agrees(problem, [&](const GemmOperands& operands) {
      run(problem, operands);
      change(operands);
      return CUBLAS_STATUS_SUCCESS;
    });
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<TemporaryMemory> workspace_;
  std::unique_ptr<Gemm> gemm_;
};

constexpr int64_t kBytes = kProblem.m * kProblem.n * 4;

TEST_F(ExactCheckTest, TheSameAlgorithmPasses) {
  EXPECT_TRUE(passes_after([](const GemmOperands&) {}));
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kBias}) {
      GemmProblem problem = kProblem;
      problem.transpose_a = true;
      problem.transpose_b = false;
      problem.inputs = problem.output = type;
      problem.epilogue = epilogue;
      EXPECT_TRUE(passes_after([](const GemmOperands&) {}, problem)) << name_of(type);
    }
    GemmProblem problem = kProblem;
    problem.inputs = type;
    for (const bool accumulate : {false, true}) {
      problem.accumulate = accumulate;
      problem.epilogue = accumulate ? Epilogue::kNone : Epilogue::kBiasGradient;
      EXPECT_TRUE(passes_after([](const GemmOperands&) {}, problem)) << name_of(type);
    }
  }
}

TEST_F(ExactCheckTest, AnotherOrderPasses) {
  EXPECT_TRUE(agrees(kProblem, [&](const GemmOperands& o) { return run_in_two_parts(o); }));
}

TEST_F(ExactCheckTest, MissingTermsFail) {
  for (const int64_t num_missing : {8, 64}) {
    GemmProblem shorter = kProblem;
    shorter.k -= num_missing;
    EXPECT_FALSE(agrees(kProblem, [&](const GemmOperands& o) { return run(shorter, o); }));
  }
}

TEST_F(ExactCheckTest, AMissingColumnFails) {
  GemmProblem narrower = kProblem;
  narrower.n -= 8;
  narrower.transpose_b = false;
  GemmProblem whole = kProblem;
  whole.transpose_b = false;
  EXPECT_FALSE(agrees(whole, [&](const GemmOperands& o) { return run(narrower, o); }));
}

TEST_F(ExactCheckTest, WrongBytesFail) {
  struct Case {
    const char* what;
    int64_t offset_bytes;
    int value;
  };
  for (const Case& c :
       {Case{"the last number", kBytes - 4, 0x55}, Case{"one inside", kBytes / 2, 0x55},
        Case{"behind the result", kBytes, 0}, Case{"before it", -2, 0}}) {
    EXPECT_FALSE(passes_after([&](const GemmOperands& o) { damage(o.d, c.offset_bytes, c.value); }))
        << c.what;
  }
  EXPECT_FALSE(passes_after([&](const GemmOperands& o) {
    damage(o.d, 0, 0xFF);
    damage(o.d, 2, 0xFF);
  })) << "a number that is not written";
}

TEST_F(ExactCheckTest, AWrongBiasGradientFails) {
  GemmProblem problem = kProblem;
  problem.epilogue = Epilogue::kBiasGradient;
  EXPECT_FALSE(passes_after(
      [&](const GemmOperands& o) { damage(o.bias, (kProblem.n - 1) * 4, 0x55); }, problem));
}

TEST_F(ExactCheckTest, FailingOnceFails) {
  for (int failing = 0; failing < 7; ++failing) {
    int runs = 0;
    EXPECT_FALSE(passes_after([&](const GemmOperands& o) {
      if (runs++ == failing) damage(o.d, 64, 0x55);
    })) << failing;
  }
}

// The last three runs have random operands, in whose sums an order that changes would show.
TEST_F(ExactCheckTest, AnotherOrderInEachRunFails) {
  int runs = 0;
  EXPECT_FALSE(agrees(kProblem, [&](const GemmOperands& o) {
    return ++runs % 2 == 0 ? run(kProblem, o) : run_in_two_parts(o);
  }));
  EXPECT_GT(runs, 4) << "on whole numbers all orders agree";
}

TEST_F(ExactCheckTest, RelyingOnAlignmentFails) {
  EXPECT_FALSE(passes_after([&](const GemmOperands& o) {
    if (reinterpret_cast<uintptr_t>(o.d) % 32 != 0) damage(o.d, 64, 0x55);
  }));
}

TEST_F(ExactCheckTest, RelyingOnAnEmptyWorkspaceFails) {
  EXPECT_FALSE(passes_after([&](const GemmOperands& o) {
    CUDA_CHECK(cudaMemcpyAsync(o.d, workspace_->data(), 4, cudaMemcpyDefault, stream_));
  }));
}

TEST_F(ExactCheckTest, WhatDoesNotRunFails) {
  EXPECT_FALSE(agrees(kProblem, [](const GemmOperands&) { return CUBLAS_STATUS_NOT_SUPPORTED; }));
}

}  // namespace
}  // namespace weft::cuda
