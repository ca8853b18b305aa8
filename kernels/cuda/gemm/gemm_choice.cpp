// The algorithm of each product: from the table, timed, or the heuristic's first choice.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/gemm/exact_check.h"
#include "kernels/cuda/gemm/gemm.h"

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

GemmProblem twin_of(const GemmProblem& problem) {
  GemmProblem twin = problem;
  twin.accumulate = false;
  return twin;
}

}  // namespace

bool Gemm::is_faster(const std::string& key, const std::function<void()>& first,
                     const std::function<void()>& second) {
  std::optional<std::string> known = find_choice(key);
  if (!known && timing_) {
    first();
    second();  // makes its own choices, and loads its kernels
    const std::vector<float> ms = timer_->in_turns_or_blocks({first, second}, 15);
    known.emplace(1, ms[0] < ms[1] ? '1' : '0');
    table_.add(key, *known);
  }
  return !known || *known == "1";
}

bool Gemm::fused_is_faster(const GemmProblem& fused, const GemmProblem& plain,
                           const GemmOperands& operands, const std::function<void()>& rest) {
  if (const auto it = fused_.find(fused); it != fused_.end()) return it->second;
  Plan& fused_plan = plan_of(fused, operands);
  bool answer = fused_plan.found;
  if (fused_plan.found) {
    const std::string key = key_of(fused) + ",fused";
    if (timing_ && fused.accumulate && !find_choice(key)) {
      if (const auto known = find_choice(key_of(twin_of(fused)) + ",fused"))
        table_.add(key, *known);
    }
    const TemporaryMemory stand_in(timing_ ? stand_in_bytes(fused, operands) : 0);
    const GemmOperands safe = with_stand_in(operands, stand_in);
    answer = is_faster(
        key, [&] { launch(fused_plan, fused_plan.algorithm, safe); },
        [&] {
          run(plain, safe);
          rest();
        });
    // The plain product's algorithm is in the table where it was timed. It counts as in use in all
    // cases, so that the text of the table does not depend on who has timed.
    find_choice(key_of(plain));
  }
  fused_.emplace(fused, answer);
  return answer;
}

bool Gemm::own_is_faster(const GemmProblem& problem, bool sums, const std::function<void()>& own,
                         const std::function<void()>& other) {
  auto& answers = own_[sums ? 1 : 0];
  if (const auto it = answers.find(problem); it != answers.end()) return it->second;
  const bool answer = is_faster(key_of(problem) + (sums ? ",own+sums" : ",own"), own, other);
  // As above: the choices of the other way count as in use.
  find_choice(key_of(problem));
  if (problem.epilogue == Epilogue::kDGelu) {
    GemmProblem plain = problem;
    plain.epilogue = Epilogue::kNone;
    find_choice(key_of(problem) + ",fused");
    find_choice(key_of(plain));
  }
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

bool Gemm::is_right(Plan& plan, const GemmProblem& problem, const cublasLtMatmulAlgo_t& reference,
                    const cublasLtMatmulAlgo_t& algorithm) {
  const auto run = [&](const cublasLtMatmulAlgo_t& a) {
    return [this, &plan, a](const GemmOperands& operands) { return try_launch(plan, a, operands); };
  };
  const ExactCheck check{.stream = stream_,
                         .problem = problem,
                         .workspace = workspace_,
                         .workspace_bytes = kWorkspaceBytes,
                         .disturb = [this](cudaStream_t stream) {
                           for (int i = 0; i < 8; ++i) timer_->pass_over_memory(stream);
                         }};
  try {
    if (agree(check, run(reference), run(algorithm))) return true;
    ++num_refused_;
  } catch (const DeviceOutOfMemory&) {
    // An algorithm that cannot be checked is not taken.
  }
  return false;
}

// Returns the algorithm of the same product without `accumulate`, where that has one and it is
// right here, too. Reading D costs all algorithms the same, so the fastest remains.
std::optional<cublasLtMatmulAlgo_t> Gemm::find_twin(Plan& plan, const GemmProblem& problem) {
  if (!problem.accumulate || !has_exact_sums(problem)) return std::nullopt;
  const std::optional<std::string> text = find_choice(key_of(twin_of(problem)));
  cublasLtMatmulAlgo_t algorithm;
  if (!text || !try_parse(*text, &algorithm) || !is_supported(plan, algorithm) ||
      !is_right(plan, problem, plan.algorithm, algorithm))
    return std::nullopt;
  return algorithm;
}

void Gemm::choose_algorithm(Plan& plan, const GemmProblem& problem, const GemmOperands& operands) {
  const std::string key = key_of(problem);
  std::optional<std::string> text = find_choice(key);
  set_scales(plan, operands);  // the heuristic looks at them
  const auto take = [&] {
    return try_parse(*text, &plan.algorithm) && is_supported(plan, plan.algorithm);
  };
  // A file may be damaged, or older than the library. A checkpoint's choice must not be replaced.
  if (text && timing_ && !take() && table_.try_forget(key)) text.reset();
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
  plan.found = take();
  if (!plan.found)
    throw std::runtime_error(
        "the stored GEMM algorithms: the entry of " + key +
        " is not an algorithm of this cuBLASLt; it comes from the checkpoint or "
        "from the first rank: take another checkpoint (--ckpt-step)");
}

}  // namespace weft::cuda
