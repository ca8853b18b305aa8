// Linear layers as cuBLASLt products. A row-major (N,O) tensor is cuBLAS's column-major (O,N)
// matrix, so in BLAS's terms
//   forward   out  (O,N) = weight (I,O)^T * inp  (I,N)
//   dgrad     dinp (I,N) = weight (I,O)   * dout (O,N)
//   wgrad  dweight (I,O) = inp    (I,N)   * dout (O,N)^T
// Epilogues compute bias, GELU's derivative and the bias gradient where the product with them is
// faster than with a kernel after it. On Hopper products of our own compute GELU beside them (products/).
#include "kernels/checks/check_shapes.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/products/gelu_product.h"

namespace weft::cuda {
namespace {

GemmProblem forward_problem(const Tensor& out, const Tensor& inp, Epilogue epilogue) {
  GemmProblem problem;
  problem.m = num_columns(out);
  problem.n = num_rows(out);
  problem.k = num_columns(inp);
  problem.transpose_a = true;
  problem.inputs = problem.output = out.dtype();
  problem.epilogue = epilogue;
  return problem;
}

GemmProblem input_gradient_problem(const Tensor& dinp, const Tensor& dout, Epilogue epilogue) {
  GemmProblem problem;
  problem.m = num_columns(dinp);
  problem.n = num_rows(dinp);
  problem.k = num_columns(dout);
  problem.inputs = problem.output = dinp.dtype();
  problem.epilogue = epilogue;
  return problem;
}

GemmProblem weight_gradient_problem(const Tensor& dout, const Tensor& inp, bool accumulate,
                                    Epilogue epilogue) {
  GemmProblem problem;
  problem.m = num_columns(inp);
  problem.n = num_columns(dout);
  problem.k = num_rows(inp);
  problem.transpose_b = true;
  problem.inputs = inp.dtype();
  problem.output = DType::kFloat32;
  problem.epilogue = epilogue;
  problem.accumulate = accumulate;
  return problem;
}

// cuBLASLt's GELU has the tanh form, and its approximation of tanh is too coarse for fp32 models.
bool has_gelu_epilogue(const Tensor& out, Gelu gelu) {
  return gelu == Gelu::kTanh && size_bytes(out.dtype()) == 2 && num_columns(out) % 8 == 0;
}

}  // namespace

void CudaBackend::linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) {
  check_linear_forward(out, inp, weight, bias);
  require_aligned("linear_forward", {out, inp, weight, bias});
  const Epilogue epilogue = bias ? Epilogue::kBias : Epilogue::kNone;
  gemm_->run(forward_problem(out, inp, epilogue),
             {out.data(), weight.data(), inp.data(), bias.data(), nullptr});
}

void CudaBackend::linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) {
  check_linear_backward_input(dinp, dout, weight);
  require_aligned("linear_backward_input", {dinp, dout, weight});
  gemm_->run(input_gradient_problem(dinp, dout, Epilogue::kNone),
             {dinp.data(), weight.data(), dout.data(), nullptr, nullptr});
}

void CudaBackend::linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight,
                                      Tensor bias, Gelu gelu) {
  check_linear_gelu_forward(out, pre, inp, weight, bias);
  require_aligned("linear_gelu_forward", {out, pre, inp, weight, bias});
  const auto in_two_steps = [&] {
    linear_forward(pre, inp, weight, bias);
    gelu_forward(out, pre, gelu);
  };
  const ProductSizes sizes{num_rows(pre), num_columns(pre), num_columns(inp)};
  if (!bias || gelu != Gelu::kTanh || !has_gelu_products(pre.dtype(), sizes)) return in_two_steps();
  const auto own = [&] {
    gelu_product(compute_,
                 {.out = out.data(),
                  .pre = pre.data(),
                  .inp = inp.data(),
                  .weight = weight.data(),
                  .bias = bias.data(),
                  .tile_counter = work_counter_},
                 pre.dtype(), sizes);
  };
  const GemmProblem problem = forward_problem(pre, inp, Epilogue::kBias);
  gemm_->own_is_faster(problem, /*sums=*/false, own, in_two_steps) ? own() : in_two_steps();
}

void CudaBackend::linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight,
                                             Tensor pre, Gelu gelu, bool accumulate) {
  constexpr const char* kName = "linear_gelu_backward_input";
  check_linear_gelu_backward_input(dpre, dbias, dout, weight, pre);
  require_aligned(kName, {dpre, dbias, dout, weight, pre});
  const int64_t N = num_rows(dpre), I = num_columns(dpre);
  const auto by_cublaslt = [&] {
    gelu_backward_input(dpre, dout, weight, pre, gelu);
    if (!dbias) return;
    cuda::column_sums(compute_, dbias.as<float>(), dpre.data(), dpre.dtype(), N, I, accumulate,
                      scratch(kName, column_sums_scratch_bytes(N, I)));
  };
  const ProductSizes sizes{N, I, num_columns(dout)};
  if (gelu != Gelu::kTanh || !has_gelu_products(dpre.dtype(), sizes)) return by_cublaslt();
  const auto own = [&] {
    float* sums = nullptr;
    if (dbias) sums = static_cast<float*>(scratch(kName, gelu_product_scratch_bytes(N, I)));
    gelu_product_backward(compute_,
                          {.dpre = dpre.data(),
                           .column_sums = sums,
                           .dout = dout.data(),
                           .weight = weight.data(),
                           .pre = pre.data(),
                           .tile_counter = work_counter_},
                          dpre.dtype(), sizes);
    if (dbias) sum_partials(compute_, {dbias.as<float>()}, sums, num_sum_rows(N), I, I, accumulate);
  };
  const GemmProblem problem = input_gradient_problem(dpre, dout, Epilogue::kDGelu);
  gemm_->own_is_faster(problem, !dbias.empty(), own, by_cublaslt) ? own() : by_cublaslt();
}

void CudaBackend::gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                      Gelu gelu) {
  const GemmProblem fused = input_gradient_problem(dpre, dout, Epilogue::kDGelu);
  const GemmProblem plain = input_gradient_problem(dpre, dout, Epilogue::kNone);
  const GemmOperands operands{dpre.data(), weight.data(), dout.data(), nullptr, pre.data()};
  const auto apply_derivative = [&] {
    cuda::gelu_backward(compute_, dpre.data(), pre.data(), dpre.dtype(), dpre.num_elements(), gelu);
  };
  if (has_gelu_epilogue(dpre, gelu) &&
      gemm_->fused_is_faster(fused, plain, operands, apply_derivative)) {
    gemm_->run(fused, operands);
    return;
  }
  gemm_->run(plain, {dpre.data(), weight.data(), dout.data(), nullptr, nullptr});
  apply_derivative();
}

void CudaBackend::linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                         bool accumulate) {
  constexpr const char* kName = "linear_backward_weight";
  check_linear_backward_weight(dweight, dbias, dout, inp);
  require_aligned(kName, {dweight, dbias, dout, inp});
  const int64_t N = num_rows(dout), O = num_columns(dout);
  const GemmProblem plain = weight_gradient_problem(dout, inp, accumulate, Epilogue::kNone);
  GemmOperands operands{dweight.data(), inp.data(), dout.data(), nullptr, nullptr};
  if (!dbias) {
    gemm_->run(plain, operands);
    return;
  }
  // The epilogue assigns. Where sums accumulate it writes to scratch, which is then added as one
  // row.
  auto* memory = static_cast<float*>(scratch(kName, column_sums_scratch_bytes(N, O)));
  const GemmProblem fused = weight_gradient_problem(dout, inp, accumulate, Epilogue::kBiasGradient);
  operands.bias = memory;
  const auto add_up = [&] {  // like column_sums below, but repeatable
    cuda::column_sums(compute_, memory, dout.data(), dout.dtype(), N, O, false, memory);
  };
  if (size_bytes(dout.dtype()) == 2 && gemm_->fused_is_faster(fused, plain, operands, add_up)) {
    if (!accumulate) operands.bias = dbias.data();
    gemm_->run(fused, operands);
    if (accumulate) sum_partials(compute_, {dbias.as<float>()}, memory, 1, O, O, true);
    return;
  }
  gemm_->run(plain, operands);
  cuda::column_sums(compute_, dbias.as<float>(), dout.data(), dout.dtype(), N, O, accumulate,
                    memory);
}

// In BLAS's terms out^T (N,M) = b (K,N)^T * a (K,M): the one form of an fp8 product before Blackwell.
void CudaBackend::fp8_product(const Fp8Product& args) {
  check_fp8_product(args);
  // cuBLASLt 13.1 has no algorithm for a scale that is not aligned, and does not say so.
  require_aligned("fp8_product",
                  {args.out, args.a, args.b, args.bias, args.a_scaling, args.b_scaling});
  GemmProblem problem;
  problem.m = args.b.shape(0);
  problem.n = args.a.shape(0);
  problem.k = args.a.shape(1);
  problem.transpose_a = true;
  problem.inputs = args.b.dtype();
  if (args.a.dtype() != args.b.dtype()) problem.b_input = args.a.dtype();
  problem.output = args.out.dtype();
  problem.epilogue = args.bias ? Epilogue::kBias : Epilogue::kNone;
  problem.accumulate = args.accumulate;
  problem.sums_fast = args.sums_fast;
  gemm_->run(problem, {.d = args.out.data(),
                       .a = args.b.data(),
                       .b = args.a.data(),
                       .bias = args.bias.data(),
                       .a_scale = args.b_scaling.as<const float>(),
                       .b_scale = args.a_scaling.as<const float>()});
}

}  // namespace weft::cuda
