// The algorithm of each product: from the table, timed, or the heuristic's first choice.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/memory_bound/check.h"

namespace weft::cuda {
namespace {

std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr const char* kDigits = "0123456789abcdef";
  const auto* bytes = reinterpret_cast<const unsigned char*>(&algorithm);
  std::string text;
  for (size_t i = 0; i < sizeof algorithm; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// Returns false when hex_of did not write `text`.
bool try_parse(const std::string& text, cublasLtMatmulAlgo_t* algorithm) {
  if (text.size() != 2 * sizeof *algorithm) return false;
  auto* bytes = reinterpret_cast<unsigned char*>(algorithm);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    bytes[i / 2] = static_cast<unsigned char>(i % 2 == 0 ? digit << 4 : bytes[i / 2] | digit);
  }
  return true;
}

// A product that assigns may be repeated on its own operands; one that reads what it writes must
// not.
int64_t stand_in_bytes(const GemmProblem& problem, const GemmOperands& operands) {
  const bool repeatable = !problem.accumulate && operands.d != operands.aux;
  const GemmBatch& batch = problem.batch;
  const int64_t elements = batch.count > 0
                               ? (batch.count - 1) * batch.stride_d + problem.n * batch.ldd
                               : problem.m * problem.n;
  return repeatable ? 0 : elements * size_bytes(problem.output);
}

GemmOperands with_stand_in(const GemmOperands& operands, const TemporaryMemory& stand_in) {
  GemmOperands result = operands;
  if (stand_in.data() != nullptr) result.d = stand_in.data();
  return result;
}

}  // namespace

bool Gemm::fused_is_faster(const GemmProblem& fused, const GemmProblem& plain,
                           const GemmOperands& operands, const std::function<void()>& rest) {
  if (const auto it = fused_.find(fused); it != fused_.end()) return it->second;
  Plan& fused_plan = plan_of(fused, operands);
  bool answer = fused_plan.found;
  if (fused_plan.found) {
    const std::string key = key_of(fused) + ",fused";
    std::optional<std::string> known = find_choice(key);
    if (!known && timing_) {
      Plan& plain_plan = plan_of(plain, operands);
      const TemporaryMemory stand_in(stand_in_bytes(fused, operands));
      const GemmOperands safe = with_stand_in(operands, stand_in);
      const auto run_fused = [&] { launch(fused_plan, fused_plan.algorithm, safe); };
      const auto run_plain = [&] {
        launch(plain_plan, plain_plan.algorithm, safe);
        rest();
      };
      bool wins = !plain_plan.found;
      if (plain_plan.found) {
        run_plain();  // warms up the kernels that `rest` launches
        const std::vector<float> ms = median_ms({run_fused, run_plain}, 15);
        wins = ms[0] < ms[1];
      }
      known = wins ? "1" : "0";
      table_.add(key, *known);
    }
    // Where it is timed, the plain product's algorithm gets into the table, too. It counts as in use
    // in both cases, so that the text of the table does not tell who has timed.
    find_choice(key_of(plain));
    if (known) answer = *known == "1";
  }
  fused_.emplace(fused, answer);
  return answer;
}

std::vector<cublasLtMatmulAlgo_t> Gemm::candidates(const Plan& plan) const {
  constexpr int kMaxCandidates = 32;
  cublasLtMatmulPreference_t preference = nullptr;
  CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      owner(preference, &cublasLtMatmulPreferenceDestroy);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kWorkspaceBytes));
  // This leaves out two ways of split-K: the one in place, which adds the parts by atomics in the
  // order of their arrival, and the one that keeps the parts in the output's type, which may
  // have 16 bits.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, uint32_t{16});

  std::vector<cublasLtMatmulHeuristicResult_t> results(kMaxCandidates);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.description, plan.a, plan.b, plan.d, plan.d,
                                     preference, kMaxCandidates, results.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  CUBLAS_CHECK(status);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

void Gemm::choose_algorithm(Plan& plan, const GemmProblem& problem, const GemmOperands& operands) {
  const std::string key = key_of(problem);
  std::optional<std::string> text = find_choice(key);
  set_scales(plan, operands);  // the heuristic looks at them
  if (!text) {
    const std::vector<cublasLtMatmulAlgo_t> algorithms = candidates(plan);
    plan.found = !algorithms.empty();
    if (!plan.found) return;
    plan.algorithm = algorithms.front();
    if (!timing_) return;
    text = hex_of(fastest(plan, algorithms, problem, operands));
    table_.add(key, *text);
  }
  cublasLtMatmulHeuristicResult_t result = {};
  plan.found = try_parse(*text, &plan.algorithm) &&
               cublasLtMatmulAlgoCheck(handle_, plan.description, plan.a, plan.b, plan.d, plan.d,
                                       &plan.algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
               result.workspaceSize <= static_cast<size_t>(kWorkspaceBytes);
  if (!plan.found)
    throw std::runtime_error((table_.has_file() ? table_.path() : "the stored GEMM algorithms") +
                             ": the entry of " + key +
                             " is not an algorithm of this cuBLASLt; remove the file to time anew");
}

// Times all candidates briefly, then the best in turns, so that a drifting clock (a GPU at its
// power limit) drifts for all of them alike. The choice is final.
cublasLtMatmulAlgo_t Gemm::fastest(Plan& plan, const std::vector<cublasLtMatmulAlgo_t>& algorithms,
                                   const GemmProblem& problem, const GemmOperands& operands) {
  constexpr size_t kFinalists = 6;
  constexpr int kTurns = 15;
  const TemporaryMemory stand_in(stand_in_bytes(problem, operands));
  const GemmOperands safe = with_stand_in(operands, stand_in);
  std::vector<std::pair<float, size_t>> ranking;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    const cublasStatus_t status = try_launch(plan, algorithms[i], safe);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
        status == CUBLAS_STATUS_ARCH_MISMATCH) {
      continue;  // this candidate cannot run
    }
    CUBLAS_CHECK(status);
    ranking.emplace_back(median_ms({[&] { launch(plan, algorithms[i], safe); }}, 3)[0], i);
  }
  if (ranking.empty()) return algorithms.front();
  std::sort(ranking.begin(), ranking.end());
  ranking.resize(std::min(ranking.size(), kFinalists));
  std::vector<std::function<void()>> finalists;
  for (const auto& [ms, i] : ranking)
    finalists.emplace_back([&, i = i] { launch(plan, algorithms[i], safe); });
  const std::vector<float> times = median_ms(finalists, kTurns);
  const auto best = std::min_element(times.begin(), times.end()) - times.begin();
  return algorithms[ranking[static_cast<size_t>(best)].second];
}

std::vector<float> Gemm::median_ms(const std::vector<std::function<void()>>& works, int turns) {
  std::vector<std::vector<float>> times(works.size());
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < works.size(); ++i) {
      CUDA_CHECK(cudaEventRecord(start_, stream_));
      works[i]();
      CUDA_CHECK(cudaEventRecord(stop_, stream_));
      CUDA_CHECK(cudaEventSynchronize(stop_));
      CUDA_CHECK(cudaEventElapsedTime(&times[i].emplace_back(), start_, stop_));
    }
  }
  std::vector<float> medians;
  for (std::vector<float>& samples : times) {
    const auto middle = samples.begin() + turns / 2;
    std::nth_element(samples.begin(), middle, samples.end());
    medians.push_back(*middle);
  }
  return medians;
}

}  // namespace weft::cuda
