// The search for the fastest algorithm of one product: about a second on an H100.
//
// It times the heuristic's candidates and, where they are Hopper's, others of the same kind
// (wider_set.h): many briefly, the best in turns, and the best of each kind in blocks, where what a
// candidate draws in power decides its clock. One that the heuristic does not name must first pass
// an ExactCheck.
#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "kernels/cuda/gemm/exact_check.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/wider_set.h"

namespace weft::cuda {
namespace {

using Algorithm = cublasLtMatmulAlgo_t;

// Times of the stages for one product; in each of them a candidate is launched at least this often.
constexpr float kScreeningMs = 300, kNeighboursMs = 150;
constexpr float kLaunchesOfScreening = 3;  // the first, which loads the kernel, and two turns
constexpr size_t kMostScreened = 128, kMostNeighbours = 64;
constexpr size_t kExpanded = 6;            // whose neighbours are tried
constexpr size_t kWiderInTurns = 10;       // configurations timed beside the heuristic's
constexpr float kSlowestFinalist = 1.08F;  // power has been seen to make up for 5 % of the time
// A candidate from outside the heuristic's list must win by more than blocks differ from each
// other.
constexpr float kClearWin = 0.99F;

template <typename T>
T attribute_of(const Algorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value = 0;
  size_t written = 0;
  CUBLAS_CHECK(
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value, &written));
  return value;
}

// Returns false where the algorithm has no such value. `initial` is there without being set.
template <typename T>
bool try_set(Algorithm* algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute, T value,
             T initial = 0) {
  return cublasLtMatmulAlgoConfigSetAttribute(algorithm, attribute, &value, sizeof value) ==
             CUBLAS_STATUS_SUCCESS ||
         value == initial;
}

int id_of(const Algorithm& algorithm) {
  return attribute_of<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID);
}

uint32_t custom_of(const Algorithm& algorithm) {
  return attribute_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
}

// The attributes that distinguish configurations; the bytes of equal ones may differ.
using Attributes = std::array<uint32_t, 4>;

Attributes attributes_of(const Algorithm& algorithm) {
  return {attribute_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID),
          attribute_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
          attribute_of<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
          attribute_of<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)};
}

}  // namespace

class Gemm::Search {
 public:
  Search(Gemm& gemm, Plan& plan, const GemmProblem& problem, const GemmOperands& operands)
      : gemm_(gemm), plan_(plan), problem_(problem), operands_(operands) {}

  Algorithm fastest(const std::vector<Algorithm>& algorithms);

 private:
  struct Candidate {
    Algorithm algorithm;
    std::optional<Configuration> configuration;  // none for what the heuristic names
    float ms = 0;
  };
  using Candidates = std::vector<Candidate>;

  void drop_what_cannot_run(Candidates& candidates);
  void time_in_turns(Candidates& candidates, int turns);
  Candidates wider(const Candidates& heuristic);
  std::optional<Algorithm> try_make(const Configuration& configuration);
  Candidates screened(const std::vector<Configuration>& configurations, size_t most, float ms);
  Candidates finalists(const Candidates& sorted);
  Algorithm best_in_blocks(Candidates& finalists);
  GemmTimer::Launches launches_of(const Candidates& candidates);

  Gemm& gemm_;
  Plan& plan_;
  const GemmProblem& problem_;
  const GemmOperands& operands_;
  Algorithm reference_ = {};       // the heuristic's first that runs
  float shortest_ms_ = 0;          // about the time of the product
  std::optional<Algorithm> base_;  // the heuristic's first of kWiderAlgorithm
  std::vector<Attributes> tried_;
};

Algorithm Gemm::Search::fastest(const std::vector<Algorithm>& algorithms) {
  const auto by_time = [](const Candidate& a, const Candidate& b) { return a.ms < b.ms; };
  Candidates candidates;
  for (const Algorithm& algorithm : algorithms) candidates.push_back({algorithm, {}});
  drop_what_cannot_run(candidates);
  if (candidates.empty()) return algorithms.front();
  reference_ = candidates.front().algorithm;
  time_in_turns(candidates, 3);
  shortest_ms_ = std::min_element(candidates.begin(), candidates.end(), by_time)->ms;
  if (shortest_ms_ < GemmTimer::kShortMs) {
    time_in_turns(candidates, 15);
    return std::min_element(candidates.begin(), candidates.end(), by_time)->algorithm;
  }
  for (const Candidate& candidate : wider(candidates)) candidates.push_back(candidate);
  time_in_turns(candidates, 6);
  std::stable_sort(candidates.begin(), candidates.end(), by_time);
  Candidates best = finalists(candidates);
  return best_in_blocks(best);
}

void Gemm::Search::drop_what_cannot_run(Candidates& candidates) {
  std::erase_if(candidates, [this](const Candidate& candidate) {
    const cublasStatus_t status = gemm_.try_launch(plan_, candidate.algorithm, operands_);
    const bool cannot_run = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                            status == CUBLAS_STATUS_INVALID_VALUE ||
                            status == CUBLAS_STATUS_ARCH_MISMATCH;
    if (!cannot_run && !candidate.configuration) CUBLAS_CHECK(status);
    return status != CUBLAS_STATUS_SUCCESS;
  });
}

GemmTimer::Launches Gemm::Search::launches_of(const Candidates& candidates) {
  GemmTimer::Launches launches;
  for (const Candidate& candidate : candidates)
    launches.emplace_back([&] { gemm_.launch(plan_, candidate.algorithm, operands_); });
  return launches;
}

void Gemm::Search::time_in_turns(Candidates& candidates, int turns) {
  const std::vector<float> ms = gemm_.timer_->in_turns(launches_of(candidates), turns);
  for (size_t i = 0; i < ms.size(); ++i) candidates[i].ms = ms[i];
}

// Returns the best candidates beyond the heuristic's list, if it is one of a kind that has others.
Gemm::Search::Candidates Gemm::Search::wider(const Candidates& heuristic) {
  std::vector<int> splits = {1};
  for (const Candidate& candidate : heuristic) {
    if (id_of(candidate.algorithm) != kWiderAlgorithm) continue;
    base_ = base_.value_or(candidate.algorithm);
    tried_.push_back(attributes_of(candidate.algorithm));
    const auto split = attribute_of<int32_t>(candidate.algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    if (split > 1 && std::find(splits.begin(), splits.end(), split) == splits.end())
      splits.push_back(split);
  }
  if (!base_ || !has_exact_sums(problem_)) return {};
  int device_idx = 0, num_multiprocessors = 0;
  CUDA_CHECK(cudaGetDevice(&device_idx));
  CUDA_CHECK(
      cudaDeviceGetAttribute(&num_multiprocessors, cudaDevAttrMultiProcessorCount, device_idx));
  const auto cut = [](Candidates& candidates, size_t most) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.ms < b.ms; });
    candidates.resize(std::min(candidates.size(), most));
  };
  Candidates best = screened(
      wider_configurations(problem_.m, problem_.n, problem_.k, splits, num_multiprocessors),
      kMostScreened, kScreeningMs);
  cut(best, kWiderInTurns);
  std::vector<Configuration> neighbours;
  for (size_t i = 0; i < best.size() && i < kExpanded; ++i) {
    for (const Configuration& neighbour : neighbours_of(*best[i].configuration))
      neighbours.push_back(neighbour);
  }
  for (const Candidate& candidate : screened(neighbours, kMostNeighbours, kNeighboursMs))
    best.push_back(candidate);
  cut(best, kWiderInTurns);
  return best;
}

// Returns the algorithm of a configuration, where cuBLASLt accepts it for this product.
std::optional<Algorithm> Gemm::Search::try_make(const Configuration& c) {
  Algorithm algorithm = {};
  const auto stages = attribute_of<uint32_t>(*base_, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  const auto inner = attribute_of<uint16_t>(*base_, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
  const cudaDataType_t inputs = cuda_type(problem_.inputs), output = cuda_type(problem_.output);
  const uint32_t reduction =
      c.split_k > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
  const bool made =
      cublasLtMatmulAlgoInit(gemm_.handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, inputs, inputs, output,
                             output, kWiderAlgorithm, &algorithm) == CUBLAS_STATUS_SUCCESS &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, c.tile.id) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID, stages) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, c.custom) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int32_t{c.split_k}, 1) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, inner) &&
      try_set(&algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, c.cluster);
  if (!made || !gemm_.is_supported(plan_, algorithm)) return std::nullopt;
  return algorithm;
}

// Times the first configurations that the library accepts, as many as fit into the time.
Gemm::Search::Candidates Gemm::Search::screened(const std::vector<Configuration>& configurations,
                                                size_t most, float ms) {
  constexpr size_t kLeast = 12;
  const auto fitting = static_cast<size_t>(ms / (kLaunchesOfScreening * shortest_ms_ + 0.2F));
  const size_t limit = std::clamp(fitting, kLeast, most);
  Candidates candidates;
  for (const Configuration& configuration : configurations) {
    if (candidates.size() == limit) break;
    const auto algorithm = try_make(configuration);
    if (!algorithm) continue;
    const Attributes attributes = attributes_of(*algorithm);
    if (std::find(tried_.begin(), tried_.end(), attributes) != tried_.end()) continue;
    tried_.push_back(attributes);
    candidates.push_back({*algorithm, configuration});
  }
  drop_what_cannot_run(candidates);
  time_in_turns(candidates, 2);
  return candidates;
}

// Returns the best of each kind: the heuristic's or not, of each algorithm, with tiles of one
// warpgroup or of two.
Gemm::Search::Candidates Gemm::Search::finalists(const Candidates& sorted) {
  using Kind = std::tuple<bool, int, bool>;
  Candidates result;
  std::vector<Kind> kinds;
  const auto of_heuristic = std::find_if(sorted.begin(), sorted.end(),
                                         [](const Candidate& c) { return !c.configuration; });
  const float slowest = std::max(kSlowestFinalist * sorted.front().ms, of_heuristic->ms);
  for (const Candidate& candidate : sorted) {
    const int id = id_of(candidate.algorithm);
    const bool shares = id == kWiderAlgorithm && shares_tiles(custom_of(candidate.algorithm));
    const Kind kind = {candidate.configuration.has_value(), id, shares};
    const bool is_new = std::find(kinds.begin(), kinds.end(), kind) == kinds.end();
    if (!is_new || candidate.ms > slowest) continue;
    if (candidate.configuration &&
        !gemm_.is_right(plan_, problem_, reference_, candidate.algorithm))
      continue;
    kinds.push_back(kind);
    result.push_back(candidate);
  }
  return result;
}

Algorithm Gemm::Search::best_in_blocks(Candidates& finalists) {
  if (finalists.size() == 1) return finalists.front().algorithm;
  const std::vector<float> ms = gemm_.timer_->in_blocks(launches_of(finalists), shortest_ms_);
  size_t best = 0;
  const auto handicapped = [&](size_t i) {
    return finalists[i].configuration ? ms[i] / kClearWin : ms[i];
  };
  for (size_t i = 1; i < finalists.size(); ++i) {
    if (handicapped(i) < handicapped(best)) best = i;
  }
  return finalists[best].algorithm;
}

Algorithm Gemm::search(Plan& plan, const std::vector<Algorithm>& algorithms,
                       const GemmProblem& problem, const GemmOperands& operands) {
  return Search(*this, plan, problem, operands).fastest(algorithms);
}

}  // namespace weft::cuda
