// Matrix products through cuBLASLt, with one algorithm per problem for the life of the process.
//
// The descriptors, layouts and the algorithm that cuBLASLt needs are made at a problem's first use
// and kept. The choice comes from the table of algorithms; for a problem that it lacks, it is the
// heuristic's first choice. While timing is on (tune() of the backend), the heuristic's candidates,
// and others that are proved right first, are timed on the operands of the call instead, and the
// choice is added to the table. So a restart with the same table repeats the same bits. Candidates
// that add split-K parts with atomics are never taken.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/gemm/algorithm_table.h"
#include "kernels/cuda/gemm/gemm_problem.h"
#include "kernels/cuda/gemm/gemm_timer.h"
#include "kernels/cuda_scratch.h"

namespace weft::cuda {

cudaDataType_t cuda_type(DType dtype);

class Gemm {
 public:
  static constexpr int64_t kWorkspaceBytes = kGemmWorkspaceBytes;

  // Uses the current device; runs on `stream`.
  Gemm(cudaStream_t stream, std::string device_name);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // kWorkspaceBytes of device memory, 256-byte aligned.
  void set_workspace(void* workspace) { workspace_ = workspace; }
  void* workspace() const { return workspace_; }

  AlgorithmTable& table() { return table_; }
  const AlgorithmTable& table() const { return table_; }
  // With timing on, run(), fused_is_faster() and own_is_faster() time what the table lacks. They
  // wait for the device then, and they take memory: for a copy of the operands and two results.
  void set_timing(bool timing);
  // How many algorithms timing has found to be fast and wrong.
  int num_refused() const { return num_refused_; }
  // Makes the next use of each problem read the table again.
  void forget_choices();

  // Runs one product. Throws std::invalid_argument when cuBLASLt has no algorithm for the problem.
  void run(const GemmProblem& problem, const GemmOperands& operands);

  // Returns whether `fused` is faster than `plain` followed by `rest`, which launches on the stream
  // and must be repeatable. The answer comes from the table or from timing, as algorithms do; else
  // it is true where cuBLASLt can do `fused` at all.
  bool fused_is_faster(const GemmProblem& fused, const GemmProblem& plain,
                       const GemmOperands& operands, const std::function<void()>& rest);

  // Returns whether a kernel of our own is faster than `other`. Both launch the problem's product
  // with its epilogue on the stream, and with `sums` also what adds up the columns of the result;
  // both may be repeated. The answer comes from the table or from timing; else it is true.
  bool own_is_faster(const GemmProblem& problem, bool sums, const std::function<void()>& own,
                     const std::function<void()>& other);

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
  bool is_supported(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const;
  std::optional<cublasLtMatmulAlgo_t> find_twin(Plan& plan, const GemmProblem& problem);
  // Returns the fastest algorithm (gemm_search.cpp). The product must be repeatable.
  class Search;
  cublasLtMatmulAlgo_t search(Plan& plan, const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                              const GemmProblem& problem, const GemmOperands& operands);
  // Returns whether `algorithm` passes an ExactCheck against `reference`.
  bool is_right(Plan& plan, const GemmProblem& problem, const cublasLtMatmulAlgo_t& reference,
                const cublasLtMatmulAlgo_t& algorithm);
  // Returns whether `first` is faster than `second`, by the table or by timing; else true.
  bool is_faster(const std::string& key, const std::function<void()>& first,
                 const std::function<void()>& second);
  static void set_scales(Plan& plan, const GemmOperands& operands);
  cublasStatus_t try_launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                            const GemmOperands& operands);
  void launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands);
  std::string key_of(const GemmProblem& problem) const;
  // Only tune() follows choices of earlier runs. A product that it has not prepared (of a shorter
  // sequence of a curriculum) gets the heuristic's first choice, which is the same on all ranks.
  std::optional<std::string> find_choice(const std::string& key) {
    return timing_ ? table_.find(key) : table_.find_settled(key);
  }

  cudaStream_t stream_;
  std::string device_name_;
  AlgorithmTable table_;
  bool timing_ = false;
  cublasLtHandle_t handle_ = nullptr;
  std::unique_ptr<GemmTimer> timer_;  // null unless timing is on
  int num_refused_ = 0;
  void* workspace_ = nullptr;
  std::unordered_map<GemmProblem, std::unique_ptr<Plan>, Hash> plans_;
  std::unordered_map<GemmProblem, bool, Hash> fused_, own_[2];  // own_[1]: with sums
};

}  // namespace weft::cuda
