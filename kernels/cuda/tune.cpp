// tune(): times the products of a model once, at start, on operands of its own.
//
// Operands are random, because matrix units draw less power and run faster on zeros. They take the
// memory of one product, twice where other algorithms are checked against the heuristic's, and 160
// MiB for passes over memory; all is released before the run allocates its own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

// Tensors of random numbers. Their memory is released together.
class Operands {
 public:
  explicit Operands(const Context& context) : context_(context) {}

  // Returns a tensor like `wanted`, which may be empty.
  Tensor random(const Tensor& wanted) {
    if (!wanted) return {};
    const Tensor tensor = wanted.with_data(allocate(wanted.num_bytes()));
    if (is_float8(tensor.dtype())) {
      round(tensor);
    } else {
      fill_random(context_.stream, tensor.data(), tensor.dtype(), tensor.num_elements());
    }
    return tensor;
  }
  void release() {
    CUDA_CHECK(cudaStreamSynchronize(context_.stream));
    memory_.clear();
  }

 private:
  void* allocate(int64_t num_bytes) { return memory_.emplace_back(num_bytes).data(); }
  void round(const Tensor& fp8) {
    const Tensor numbers(allocate(2 * fp8.num_elements()), DType::kBFloat16,
                         {fp8.shape(0), fp8.shape(1)});
    fill_random(context_.stream, numbers.data(), numbers.dtype(), numbers.num_elements());
    const Tensor scaling(allocate(2 * sizeof(float)), DType::kFloat32, {2});
    run(context_, Quantize{.rows = fp8, .scaling = scaling, .derives_scale = true, .inp = numbers});
  }

  const Context& context_;
  std::deque<TemporaryMemory> memory_;
};

// The tensors of each GEMM that is timed.
template <typename Op>
constexpr auto kTensors = nullptr;
template <>
constexpr auto kTensors<LinearForward> = std::tuple{&LinearForward::out, &LinearForward::inp,
                                                    &LinearForward::weight, &LinearForward::bias};
template <>
constexpr auto kTensors<LinearBackwardInput> = std::tuple{
    &LinearBackwardInput::dinp, &LinearBackwardInput::dout, &LinearBackwardInput::weight};
template <>
constexpr auto kTensors<LinearBackwardWeight> =
    std::tuple{&LinearBackwardWeight::dweight, &LinearBackwardWeight::dbias,
               &LinearBackwardWeight::dout, &LinearBackwardWeight::inp};
template <>
constexpr auto kTensors<LinearActivationForward> = std::tuple{
    &LinearActivationForward::out, &LinearActivationForward::pre, &LinearActivationForward::inp,
    &LinearActivationForward::weight, &LinearActivationForward::bias};
template <>
constexpr auto kTensors<LinearActivationBackwardInput> =
    std::tuple{&LinearActivationBackwardInput::dpre, &LinearActivationBackwardInput::dbias,
               &LinearActivationBackwardInput::dout, &LinearActivationBackwardInput::weight,
               &LinearActivationBackwardInput::pre};
template <>
constexpr auto kTensors<Fp8Product> =
    std::tuple{&Fp8Product::out,       &Fp8Product::a,         &Fp8Product::b,
               &Fp8Product::a_scaling, &Fp8Product::b_scaling, &Fp8Product::bias};

template <>
constexpr auto kTensors<BatchedProduct> =
    std::tuple{&BatchedProduct::out, &BatchedProduct::a, &BatchedProduct::b, &BatchedProduct::c};

template <typename Op>
concept Product = !std::is_null_pointer_v<decltype(kTensors<Op>)>;

// Returns the operation with tensors that `of` makes of its own.
template <Product Op, typename Of>
Op with_tensors(Op op, Of of) {
  std::apply([&](auto... tensor) { ((op.*tensor = of(op.*tensor)), ...); }, kTensors<Op>);
  return op;
}

// Runs each product once, while timing is on.
class Products {
 public:
  explicit Products(const Context& context) : context_(context), operands_(context) {}

  template <typename Op>
  void time(const Op&) {}
  template <Product Op>
  void time(const Op& op) {
    // Products of equal shapes are one.
    static char there;
    const Op shapes = with_tensors(
        op, [](const Tensor& tensor) { return tensor ? tensor.with_data(&there) : Tensor(); });
    auto& known = std::get<std::vector<Op>>(known_);
    if (std::find(known.begin(), known.end(), shapes) != known.end()) return;
    known.push_back(shapes);
    run(context_,
        with_tensors(op, [this](const Tensor& tensor) { return operands_.random(tensor); }));
    operands_.release();
  }

 private:
  const Context& context_;
  Operands operands_;
  std::tuple<std::vector<LinearForward>, std::vector<LinearBackwardInput>,
             std::vector<LinearBackwardWeight>, std::vector<LinearActivationForward>,
             std::vector<LinearActivationBackwardInput>, std::vector<Fp8Product>,
             std::vector<BatchedProduct>>
      known_;
};

// Tells what a user may wonder about: a long start, and a library that computes wrongly.
std::string note_of_search(int num_refused, std::chrono::duration<double> time) {
  constexpr double kLongSeconds = 3;
  std::string note;
  if (time.count() > kLongSeconds)
    note = "the matrix products' algorithms were timed for " +
           std::to_string(std::lround(time.count())) + " s; the next run finds the choices\n";
  if (num_refused > 0)
    note += std::to_string(num_refused) +
            " fast algorithms of cuBLASLt gave other numbers than its first choice, and are not "
            "taken\n";
  return note;
}

}  // namespace

TuneResult CudaBackend::tune(std::span<const AnyOperation> operations,
                             const AlgorithmChoices& known) {
  gemm_->table().offer(known);
  // Operands in fp8 are rounded, which takes scratch, too.
  const int64_t num_bytes = workspace_bytes(operations) + kQuantizeAmaxBytes;
  void* const old_workspace = gemm_->workspace();
  const int64_t old_bytes =
      old_workspace == nullptr ? 0 : Gemm::kWorkspaceBytes + context_.scratch_bytes;
  const auto start = std::chrono::steady_clock::now();
  const int refused_before = gemm_->num_refused();
  std::string note;
  const auto restore = [&] {
    gemm_->set_timing(false);
    gemm_->forget_choices();
    set_workspace(old_workspace, old_bytes);
  };
  try {
    const TemporaryMemory workspace(num_bytes);
    set_workspace(workspace.data(), num_bytes);
    gemm_->set_timing(true);
    Products products(context_);
    for (const AnyOperation& operation : operations)
      std::visit([&](const auto& op) { products.time(op); }, operation);
    restore();
  } catch (const DeviceOutOfMemory& error) {
    restore();
    note = std::string("GEMM algorithms are not timed, the library's own choice is used: ") +
           error.what() + "\n";
  } catch (...) {
    restore();
    throw;
  }
  note += note_of_search(gemm_->num_refused() - refused_before,
                         std::chrono::steady_clock::now() - start);
  return {note, gemm_->table().take_timed()};
}

void CudaBackend::use_algorithms(const std::string& text) {
  gemm_->table().use(parse_algorithms(text, "the stored GEMM algorithms"));
  gemm_->forget_choices();
}

}  // namespace weft::cuda
