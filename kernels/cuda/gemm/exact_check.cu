#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/gemm/exact_check.h"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMargin = 256;  // bytes on each side of a result
constexpr int64_t kWorstAlignment = 16;
constexpr int kPoison = 0xFF;  // NaN in fp32, bf16 and fp16

// A bias is a whole number that all types hold; it comes on top of 2^22.
constexpr int kLargestBias = 128;

// A thread makes the four numbers of a Philox block.
template <typename T>
__global__ void fill_kernel(T* data, int64_t n, int range, uint64_t seed) {
  const int64_t first = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * 4;
  const PhiloxBlock block = philox(seed, 0, static_cast<uint64_t>(first));
  for (int i = 0; i < 4 && first + i < n; ++i) {
    const auto number = static_cast<int>(block.word[i] % static_cast<uint32_t>(2 * range + 1));
    data[first + i] = static_cast<T>(static_cast<float>(number - range));
  }
}

__global__ void compare_kernel(unsigned* differs, const uint32_t* a, const uint32_t* b, int64_t n) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const unsigned differ = __ballot_sync(~0U, i < n && a[i] != b[i]);
  if (threadIdx.x % 32 == 0 && differ != 0) *differs = 1;
}

// A result with memory around it that must stay as it is.
struct Result {
  static int64_t bytes_of(int64_t num_bytes) {
    return num_bytes == 0 ? 0 : (num_bytes + 15) / 16 * 16 + 2 * kMargin + kWorstAlignment;
  }
  explicit Result(const GemmProblem& problem)
      : d_bytes(bytes_of(problem.m * problem.n * size_bytes(problem.output))),
        bias_bytes(bytes_of(problem.epilogue == Epilogue::kBiasGradient ? problem.n * 4 : 0)),
        d(d_bytes),
        bias(bias_bytes) {}
  int64_t d_bytes, bias_bytes;
  TemporaryMemory d, bias;  // bias: its gradient
};

class Checker {
 public:
  explicit Checker(const ExactCheck& check)
      : check_(check),
        range_(exact_range(check.problem.k, check.problem.output)),
        a_(check.problem.m * check.problem.k * 2 + kWorstAlignment),
        b_(check.problem.n * check.problem.k * 2 + kWorstAlignment),
        bias_(check.problem.m * size_bytes(check.problem.output) + kWorstAlignment),
        differs_(sizeof(unsigned)),
        wanted_(check.problem),
        got_(check.problem) {
    CUDA_CHECK(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
  }
  ~Checker() {
    cudaStreamSynchronize(check_.stream);
    cudaStreamSynchronize(other_);
    cudaStreamDestroy(other_);
  }
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  bool agrees(const GemmRun& reference, const GemmRun& candidate) {
    const GemmProblem& p = check_.problem;
    for (offset_bytes_ = 0; offset_bytes_ <= kWorstAlignment; offset_bytes_ += kWorstAlignment) {
      fill(shifted(a_), p.inputs, p.m * p.k, range_, 1);
      fill(shifted(b_), p.inputs, p.n * p.k, range_, 2);
      fill(shifted(bias_), p.output, p.m, kLargestBias, 3);
      if (!equals(reference, candidate)) return false;
    }
    // Whole numbers have the same sum in every order, so an order that depends on time shows on
    // others only.
    offset_bytes_ = 0;
    fill_random(check_.stream, a_.data(), p.inputs, p.m * p.k);
    fill_random(check_.stream, b_.data(), p.inputs, p.n * p.k);
    return equals(candidate, candidate);
  }

 private:
  void* shifted(const TemporaryMemory& memory, int64_t num_bytes = 0) const {
    return static_cast<char*>(memory.data()) + num_bytes + offset_bytes_;
  }
  void fill(void* data, DType type, int64_t n, int range, uint64_t seed) const {
    dispatch(type, [&](auto t) {
      using T = decltype(t);
      fill_kernel<T><<<grid_size(ceil_div(n, 4 * kThreads)), kThreads, 0, check_.stream>>>(
          static_cast<T*>(data), n, range, seed);
    });
    CUDA_CHECK(cudaGetLastError());
  }

  bool equals(const GemmRun& reference, const GemmRun& candidate) {
    if (!try_run(reference, wanted_, false)) return false;
    for (const bool beside_others : {false, true}) {
      if (!try_run(candidate, got_, beside_others) || results_differ()) return false;
    }
    return true;
  }

  bool try_run(const GemmRun& run, const Result& result, bool beside_others) {
    const auto poison = [this](void* data, int64_t num_bytes) {
      if (num_bytes > 0)
        CUDA_CHECK(cudaMemsetAsync(data, kPoison, static_cast<size_t>(num_bytes), check_.stream));
    };
    poison(result.d.data(), result.d_bytes);
    poison(result.bias.data(), result.bias_bytes);
    poison(check_.workspace, check_.workspace_bytes);
    const GemmProblem& p = check_.problem;
    const bool writes_bias = p.epilogue == Epilogue::kBiasGradient;
    const GemmOperands operands{
        .d = shifted(result.d, kMargin),
        .a = shifted(a_),
        .b = shifted(b_),
        .bias = writes_bias ? shifted(result.bias, kMargin) : shifted(bias_)};
    if (p.accumulate) fill(operands.d, p.output, p.m * p.n, range_, 4);
    if (beside_others) {
      CUDA_CHECK(cudaStreamSynchronize(check_.stream));
      check_.disturb(other_);
    }
    return run(operands) == CUBLAS_STATUS_SUCCESS;
  }

  bool results_differ() const {
    auto* const differs = static_cast<unsigned*>(differs_.data());
    CUDA_CHECK(cudaMemsetAsync(differs, 0, sizeof *differs, check_.stream));
    const auto compare = [&](const TemporaryMemory& a, const TemporaryMemory& b, int64_t bytes) {
      if (bytes == 0) return;
      compare_kernel<<<grid_size(ceil_div(bytes / 4, kThreads)), kThreads, 0, check_.stream>>>(
          differs, static_cast<const uint32_t*>(a.data()), static_cast<const uint32_t*>(b.data()),
          bytes / 4);
      CUDA_CHECK(cudaGetLastError());
    };
    compare(wanted_.d, got_.d, wanted_.d_bytes);
    compare(wanted_.bias, got_.bias, wanted_.bias_bytes);
    unsigned result = 0;
    CUDA_CHECK(
        cudaMemcpyAsync(&result, differs, sizeof result, cudaMemcpyDeviceToHost, check_.stream));
    CUDA_CHECK(cudaStreamSynchronize(check_.stream));
    return result != 0;
  }

  const ExactCheck& check_;
  const int range_;
  cudaStream_t other_ = nullptr;
  int64_t offset_bytes_ = 0;
  TemporaryMemory a_, b_, bias_, differs_;
  Result wanted_, got_;
};

}  // namespace

int exact_range(int64_t k, DType output) {
  constexpr double kLargestSum = 4194304;  // 2^22
  const auto terms = static_cast<double>(k);
  double square = kLargestSum / terms;
  // Four standard deviations of a result stay finite.
  if (output == DType::kFloat16) square = std::min(square, 3 * 65504 / (4 * std::sqrt(terms)));
  return std::clamp(static_cast<int>(std::sqrt(square)), 1, 128);
}

bool has_exact_sums(const GemmProblem& problem) {
  return size_bytes(problem.inputs) == 2 && !problem.b_input && problem.batch.count == 0 &&
         problem.epilogue != Epilogue::kDGelu && problem.k <= int64_t{1} << 22;
}

bool agree(const ExactCheck& check, const GemmRun& reference, const GemmRun& candidate) {
  return Checker(check).agrees(reference, candidate);
}

}  // namespace weft::cuda
