// Matrix products through cuBLASLt, with one algorithm per problem for the life of the process.
//
// The descriptors, layouts and the algorithm that cuBLASLt needs are made at a problem's first use
// and kept. The choice comes from the table of algorithms; for a problem that it lacks, it is the
// heuristic's first choice. While timing is on (tune() of the backend), the heuristic's candidates
// are timed on the operands of the call instead, and the choice is added to the table. So a restart
// with the same table repeats the same bits. Candidates that add split-K parts with atomics are
// never taken.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/algorithm_table.h"
#include "kernels/tensor.h"

namespace weft::cuda {

enum class Epilogue : uint8_t {
  kNone,
  kBias,          // D += bias (m), of the output's type
  kDGelu,         // D *= gelu_tanh'(aux)
  kBiasGradient,  // bias (n), fp32 = sums of B's columns over k
};

// Where the matrices of a batch of equal products lie, in elements of their types: columns `ld` apart, and
// the matrices of one product after those of the one before `stride` apart.
struct GemmBatch {
  int64_t count = 0;  // 0: one product, whose columns have no padding
  int64_t lda = 0, stride_a = 0, ldb = 0, stride_b = 0, ldd = 0, stride_d = 0;
  bool operator==(const GemmBatch&) const = default;
};

// D (m,n) = op(A) (m,k) * op(B) (k,n), column-major as in BLAS. With `accumulate`, which needs an fp32
// D, the product is added to D. A product of fp8 operands is multiplied with their scales, which are
// numbers on the device.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType inputs = DType::kFloat32, output = DType::kFloat32;
  std::optional<DType> b_input = {};  // the type of B where it is not `inputs`; fp8 only
  bool sums_fast = false;             // fp8: adds up in fewer digits than fp32 has
  Epilogue epilogue = Epilogue::kNone;
  bool accumulate = false;
  GemmBatch batch = {};
  bool operator==(const GemmProblem&) const = default;
};

struct GemmOperands {
  void* d = nullptr;
  const void* a = nullptr;
  const void* b = nullptr;
  void* bias = nullptr;                                // written by kBiasGradient only
  void* aux = nullptr;                                 // (m,n)
  const float *a_scale = nullptr, *b_scale = nullptr;  // of fp8 operands
};

class Gemm {
 public:
  // In 64 MiB split-K can keep the parts of the largest weight gradients; forward GEMMs need at
  // most half of that.
  static constexpr int64_t kWorkspaceBytes = int64_t{64} << 20;

  // Uses the current device; runs on `stream`.
  Gemm(cudaStream_t stream, std::string device_name, const std::string& table_path);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // kWorkspaceBytes of device memory, 256-byte aligned.
  void set_workspace(void* workspace) { workspace_ = workspace; }
  void* workspace() const { return workspace_; }

  AlgorithmTable& table() { return table_; }
  const AlgorithmTable& table() const { return table_; }
  // With timing on, run() and fused_is_faster() time what the table lacks. They wait for the device
  // then, and where a product accumulates they take memory of D's size for that time.
  void set_timing(bool timing) { timing_ = timing; }
  // Makes the next use of each problem ask the table again.
  void forget_choices();

  // Runs one product. Throws std::invalid_argument when cuBLASLt has no algorithm for the problem.
  void run(const GemmProblem& problem, const GemmOperands& operands);

  // Returns whether `fused` is faster than `plain` followed by `rest`, which launches on the stream
  // and must be repeatable. The answer comes from the table or from timing, as algorithms do; else it
  // is true where cuBLASLt can do `fused` at all.
  bool fused_is_faster(const GemmProblem& fused, const GemmProblem& plain,
                       const GemmOperands& operands, const std::function<void()>& rest);

 private:
  // Holds everything that cuBLASLt needs to run one product.
  struct Plan {
    cublasLtMatmulDesc_t description = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    cublasLtMatmulAlgo_t algorithm = {};
    bool found = false;  // cuBLASLt has an algorithm for the problem
    float beta = 0.0F;
    bool has_scales = false;
    Epilogue epilogue = Epilogue::kNone;

    Plan() = default;
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    ~Plan();
  };
  struct Hash {
    size_t operator()(const GemmProblem& problem) const;
  };

  Plan& plan_of(const GemmProblem& problem, const GemmOperands& operands);
  std::unique_ptr<Plan> make_plan(const GemmProblem& problem) const;
  std::vector<cublasLtMatmulAlgo_t> candidates(const Plan& plan) const;
  void choose_algorithm(Plan& plan, const GemmProblem& problem, const GemmOperands& operands);
  cublasLtMatmulAlgo_t fastest(Plan& plan, const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                               const GemmProblem& problem, const GemmOperands& operands);
  static void set_scales(Plan& plan, const GemmOperands& operands);
  cublasStatus_t try_launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                            const GemmOperands& operands);
  void launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands);
  // Returns the median time of each work. They are measured in turns.
  std::vector<float> median_ms(const std::vector<std::function<void()>>& works, int turns);
  std::string key_of(const GemmProblem& problem) const;
  // Only tune() follows the file: what it has not prepared (shorter sequences of a curriculum) gets the
  // heuristic's first choice, which is the same on all ranks.
  std::optional<std::string> find_choice(const std::string& key) {
    return timing_ ? table_.find(key) : table_.find_settled(key);
  }

  cudaStream_t stream_;
  std::string device_name_;
  AlgorithmTable table_;
  bool timing_ = false;
  cublasLtHandle_t handle_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  void* workspace_ = nullptr;
  std::unordered_map<GemmProblem, std::unique_ptr<Plan>, Hash> plans_;
  std::unordered_map<GemmProblem, bool, Hash> fused_;
};

}  // namespace weft::cuda
