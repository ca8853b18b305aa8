#include "kernels/cuda/exact_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int64_t kMargin = 256;  // bytes on each side of a result
constexpr int64_t kWorstAlignment = 16;
constexpr int kPoison = 0xFF;  // NaN in fp32, bf16 and fp16

// A bias is a whole number that all types hold; it comes on top of 2^22.
constexpr int kLargestBias = 128;

int64_t padded(int64_t num_bytes) { return (num_bytes + 15) / 16 * 16; }

void* shifted(const TemporaryMemory& memory, int64_t num_bytes) {
  return static_cast<char*>(memory.data()) + num_bytes;
}

}  // namespace

int exact_range(int64_t k, DType output) {
  constexpr double kLargestSum = 4194304;  // 2^22
  const auto terms = static_cast<double>(k);
  double square = kLargestSum / terms;
  // Four standard deviations of a result stay finite.
  if (output == DType::kFloat16) square = std::min(square, 3 * 65504 / (4 * std::sqrt(terms)));
  return std::clamp(static_cast<int>(std::sqrt(square)), 1, 128);
}

bool ExactCheck::covers(const GemmProblem& problem) {
  return size_bytes(problem.inputs) == 2 && !problem.b_input && problem.batch.count == 0 &&
         problem.epilogue != Epilogue::kDGelu && problem.k <= int64_t{1} << 22;
}

ExactCheck::Result::Result(const GemmProblem& problem)
    : d_bytes(padded(problem.m * problem.n * size_bytes(problem.output)) + 2 * kMargin +
              kWorstAlignment),
      bias_bytes(problem.epilogue == Epilogue::kBiasGradient
                     ? padded(problem.n * 4) + 2 * kMargin + kWorstAlignment
                     : 0),
      d(d_bytes),
      bias(bias_bytes) {}

ExactCheck::ExactCheck(cudaStream_t stream, const GemmProblem& problem, void* workspace,
                       int64_t workspace_bytes, std::function<void(cudaStream_t)> disturb)
    : stream_(stream),
      problem_(problem),
      range_(exact_range(problem.k, problem.output)),
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      disturb_(std::move(disturb)),
      a_(problem.m * problem.k * 2 + kWorstAlignment),
      b_(problem.n * problem.k * 2 + kWorstAlignment),
      bias_(problem.m * size_bytes(problem.output) + kWorstAlignment),
      differences_(sizeof(uint64_t)),
      wanted_(problem),
      got_(problem) {
  CUDA_CHECK(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
  CUDA_CHECK(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
}

ExactCheck::~ExactCheck() {
  cudaStreamSynchronize(stream_);
  cudaStreamSynchronize(other_);
  cudaEventDestroy(ready_);
  cudaStreamDestroy(other_);
}

bool ExactCheck::agree(const Run& reference, const Run& candidate) {
  for (const int64_t offset : {int64_t{0}, kWorstAlignment}) {
    offset_bytes_ = offset;
    fill_operands();
    if (!try_run(reference, wanted_, false)) return false;
    for (const bool beside_others : {false, true}) {
      if (!try_run(candidate, got_, beside_others) || count_differences() != 0) return false;
    }
  }
  return repeats(candidate);
}

// Whole numbers have the same sum in every order, so an order that depends on time shows on others
// only.
bool ExactCheck::repeats(const Run& candidate) {
  offset_bytes_ = 0;
  fill_random(stream_, a_.data(), problem_.inputs, problem_.m * problem_.k);
  fill_random(stream_, b_.data(), problem_.inputs, problem_.n * problem_.k);
  if (!try_run(candidate, wanted_, false)) return false;
  for (const bool beside_others : {false, true}) {
    if (!try_run(candidate, got_, beside_others) || count_differences() != 0) return false;
  }
  return true;
}

void ExactCheck::fill_operands() {
  const GemmProblem& p = problem_;
  const auto fill = [this](const TemporaryMemory& memory, DType type, int64_t n, int range,
                           uint64_t seed) {
    fill_whole_numbers(stream_, shifted(memory, offset_bytes_), type, n, range, seed);
  };
  fill(a_, p.inputs, p.m * p.k, range_, 1);
  fill(b_, p.inputs, p.n * p.k, range_, 2);
  fill(bias_, p.output, p.m, kLargestBias, 3);
}

bool ExactCheck::try_run(const Run& run, const Result& result, bool beside_others) {
  const auto poison = [this](void* data, int64_t num_bytes) {
    if (num_bytes > 0)
      CUDA_CHECK(cudaMemsetAsync(data, kPoison, static_cast<size_t>(num_bytes), stream_));
  };
  poison(result.d.data(), result.d_bytes);
  poison(result.bias.data(), result.bias_bytes);
  poison(workspace_, workspace_bytes_);
  GemmOperands operands{.d = shifted(result.d, kMargin + offset_bytes_),
                        .a = shifted(a_, offset_bytes_),
                        .b = shifted(b_, offset_bytes_)};
  operands.bias = problem_.epilogue == Epilogue::kBiasGradient
                      ? shifted(result.bias, kMargin + offset_bytes_)
                      : shifted(bias_, offset_bytes_);
  if (problem_.accumulate)
    fill_whole_numbers(stream_, operands.d, problem_.output, problem_.m * problem_.n, range_, 4);
  if (beside_others) {
    CUDA_CHECK(cudaEventRecord(ready_, stream_));
    CUDA_CHECK(cudaStreamWaitEvent(other_, ready_));
    disturb_(other_);
  }
  return run(operands) == CUBLAS_STATUS_SUCCESS;
}

uint64_t ExactCheck::count_differences() {
  auto* const count = static_cast<uint64_t*>(differences_.data());
  CUDA_CHECK(cudaMemsetAsync(count, 0, sizeof *count, stream_));
  count_different_words(stream_, count, wanted_.d.data(), got_.d.data(), wanted_.d_bytes);
  count_different_words(stream_, count, wanted_.bias.data(), got_.bias.data(), wanted_.bias_bytes);
  uint64_t result = 0;
  CUDA_CHECK(cudaMemcpyAsync(&result, count, sizeof result, cudaMemcpyDeviceToHost, stream_));
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  return result;
}

}  // namespace weft::cuda
