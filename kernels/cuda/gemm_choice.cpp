// The algorithm of each product: from the table, timed, or the heuristic's first choice.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/exact_check.h"
#include "kernels/cuda/gemm.h"

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
  return repeatable ? 0 : problem.m * problem.n * size_bytes(problem.output);
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
    if (!known && timing_ && fused.accumulate) {
      GemmProblem twin = fused;
      twin.accumulate = false;
      known = find_choice(key_of(twin) + ",fused");
      if (known) table_.add(key, *known);
    }
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
        const std::vector<float> ms = timer_->in_turns_or_blocks({run_fused, run_plain}, 15);
        wins = ms[0] < ms[1];
      }
      known = std::string(1, wins ? '1' : '0');
      table_.add(key, *known);
    }
    // Where it is timed, the plain product's algorithm gets into the table, too. It counts as in
    // use in both cases, so that the text of the table does not tell who has timed.
    find_choice(key_of(plain));
    if (known) answer = *known == "1";
  }
  fused_.emplace(fused, answer);
  return answer;
}

bool Gemm::own_is_faster(const GemmProblem& problem, bool sums, const std::function<void()>& own,
                         const std::function<void()>& other) {
  auto& answers = own_[sums ? 1 : 0];
  if (const auto it = answers.find(problem); it != answers.end()) return it->second;
  const std::string key = key_of(problem) + (sums ? ",own+sums" : ",own");
  std::optional<std::string> known = find_choice(key);
  if (!known && timing_) {
    own();
    other();  // makes its own choices first
    const std::vector<float> ms = timer_->in_turns_or_blocks({own, other}, 15);
    known = std::string(1, ms[0] < ms[1] ? '1' : '0');
    table_.add(key, *known);
  }
  // The choices for the other way get into the table where it is timed. They count as in use in all
  // cases, so that the text of the table does not tell who has timed.
  find_choice(key_of(problem));
  if (problem.epilogue == Epilogue::kDGelu) {
    GemmProblem plain = problem;
    plain.epilogue = Epilogue::kNone;
    find_choice(key_of(problem) + ",fused");
    find_choice(key_of(plain));
  }
  const bool answer = !known || *known == "1";
  answers.emplace(problem, answer);
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

bool Gemm::is_supported(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  return cublasLtMatmulAlgoCheck(handle_, plan.description, plan.a, plan.b, plan.d, plan.d,
                                 &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kWorkspaceBytes);
}

void Gemm::set_timing(bool timing) {
  timer_ = timing ? std::make_unique<GemmTimer>(stream_) : nullptr;
  timing_ = timing;
}

// Returns the algorithm of the same product without `accumulate`, where that has one and it is
// right here, too. Reading D costs all algorithms the same, so the fastest remains.
std::optional<cublasLtMatmulAlgo_t> Gemm::find_twin(Plan& plan, const GemmProblem& problem) {
  if (!problem.accumulate || !ExactCheck::covers(problem)) return std::nullopt;
  GemmProblem twin = problem;
  twin.accumulate = false;
  const std::optional<std::string> text = find_choice(key_of(twin));
  cublasLtMatmulAlgo_t algorithm;
  if (!text || !try_parse(*text, &algorithm) || !is_supported(plan, algorithm)) return std::nullopt;
  const auto run = [&](const cublasLtMatmulAlgo_t& a) {
    return [this, &plan, a](const GemmOperands& operands) { return try_launch(plan, a, operands); };
  };
  try {
    ExactCheck check(stream_, problem, workspace_, kWorkspaceBytes, disturb());
    if (check.agree(run(plan.algorithm), run(algorithm))) return algorithm;
  } catch (const DeviceOutOfMemory&) {
    // The search that follows needs less.
  }
  return std::nullopt;
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
    std::optional<cublasLtMatmulAlgo_t> algorithm = find_twin(plan, problem);
    if (!algorithm) {
      const TemporaryMemory stand_in(stand_in_bytes(problem, operands));
      algorithm = search(plan, algorithms, problem, with_stand_in(operands, stand_in));
    }
    text = hex_of(*algorithm);
    table_.add(key, *text);
  }
  plan.found = try_parse(*text, &plan.algorithm) && is_supported(plan, plan.algorithm);
  if (!plan.found)
    throw std::runtime_error((table_.has_file() ? table_.path() : "the stored GEMM algorithms") +
                             ": the entry of " + key +
                             " is not an algorithm of this cuBLASLt; remove the file to time anew");
}

}  // namespace weft::cuda
