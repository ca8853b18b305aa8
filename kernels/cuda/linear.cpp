// Linear layers as cuBLASLt products. A row-major (N,O) tensor is cuBLAS's column-major (O,N)
// matrix, so in BLAS's terms
//   forward   out  (O,N) = weight (I,O)^T * inp  (I,N)
//   dgrad     dinp (I,N) = weight (I,O)   * dout (O,N)
//   wgrad  dweight (I,O) = inp    (I,N)   * dout (O,N)^T
//   a batch   out  (N,M) = b (K,N) or (N,K)^T * a (K,M)
// Epilogues compute bias, GELU's derivative and the bias gradient where the product with them is
// faster than with a kernel after it. On Hopper products of our own compute GELU beside them
// (fused_gemm/).
#include "kernels/operations/linear.h"

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/fused_gemm/gelu_gemm.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/activation.h"
#include "kernels/operations/fp8.h"
#include "kernels/operations/muon.h"

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

FewRowsProduct few_rows(const Tensor& out, const Tensor& inp, const Tensor& weight,
                        const Tensor& bias) {
  return {.out = out.data(),
          .inp = inp.data(),
          .weight = weight.data(),
          .bias = bias.data(),
          .dtype = out.dtype(),
          .num_rows = num_rows(out),
          .num_outputs = num_columns(out),
          .num_inputs = num_columns(inp)};
}

// cuBLASLt's GELU has the tanh form, and its approximation of tanh is too coarse for fp32 models.
bool has_gelu_epilogue(const Tensor& out, Activation activation) {
  return activation == Activation::kGeluTanh && size_bytes(out.dtype()) == 2 &&
         num_columns(out) % 8 == 0;
}

// The gradient of fc2's input and the activation's derivative by cuBLASLt, with its epilogue or a
// kernel after it.
void activation_backward_input(const Context& context, const LinearActivationBackwardInput& op) {
  const Tensor &dpre = op.dpre, &dout = op.dout, &pre = op.pre;
  const GemmProblem fused = input_gradient_problem(dpre, dout, Epilogue::kDGelu);
  const GemmProblem plain = input_gradient_problem(dpre, dout, Epilogue::kNone);
  const GemmOperands operands{dpre.data(), op.weight.data(), dout.data(), nullptr, pre.data()};
  const auto apply_derivative = [&] {
    activation_backward(context.stream, dpre.data(), pre.data(), dpre.dtype(), dpre.num_elements(),
                        op.activation);
  };
  if (has_gelu_epilogue(dpre, op.activation) &&
      context.gemm->fused_is_faster(fused, plain, operands, apply_derivative)) {
    context.gemm->run(fused, operands);
    return;
  }
  context.gemm->run(plain, {dpre.data(), op.weight.data(), dout.data(), nullptr, nullptr});
  apply_derivative();
}

}  // namespace

void run(const Context& context, const LinearForward& op) {
  require_aligned("linear_forward", {op.out, op.inp, op.weight, op.bias});
  if (has_few_rows(num_rows(op.out), num_columns(op.inp)))
    return few_rows_product(context.stream, few_rows(op.out, op.inp, op.weight, op.bias));
  const Epilogue epilogue = op.bias ? Epilogue::kBias : Epilogue::kNone;
  context.gemm->run(forward_problem(op.out, op.inp, epilogue),
                    {op.out.data(), op.weight.data(), op.inp.data(), op.bias.data(), nullptr});
}

void run(const Context& context, const LinearBackwardInput& op) {
  require_aligned("linear_backward_input", {op.dinp, op.dout, op.weight});
  context.gemm->run(input_gradient_problem(op.dinp, op.dout, Epilogue::kNone),
                    {op.dinp.data(), op.weight.data(), op.dout.data(), nullptr, nullptr});
}

void run(const Context& context, const LinearActivationForward& op) {
  const Tensor &pre = op.pre, &inp = op.inp;
  require_aligned("linear_gelu_forward", {op.out, pre, inp, op.weight, op.bias});
  if (has_few_rows(num_rows(pre), num_columns(inp))) {
    FewRowsProduct product = few_rows(pre, inp, op.weight, op.bias);
    product.activated_out = op.out.data();
    product.activation = op.activation;
    return few_rows_product(context.stream, product);
  }
  const auto in_two_steps = [&] {
    run(context, LinearForward{.out = pre, .inp = inp, .weight = op.weight, .bias = op.bias});
    run(context, ActivationForward{.out = op.out, .pre = pre, .activation = op.activation});
  };
  const GemmSizes sizes{num_rows(pre), num_columns(pre), num_columns(inp)};
  // Tiles have 128 rows. Few rows make few tiles, which do not read the weight at memory's rate.
  const bool fills_tiles = sizes.M > 64;
  if (!op.bias || op.activation != Activation::kGeluTanh || !fills_tiles ||
      !has_gelu_gemms(pre.dtype(), sizes))
    return in_two_steps();
  const auto own = [&] {
    gelu_gemm(context.stream,
              {.out = op.out.data(),
               .pre = pre.data(),
               .inp = inp.data(),
               .weight = op.weight.data(),
               .bias = op.bias.data(),
               .tile_counter = context.work_counter},
              pre.dtype(), sizes);
  };
  const GemmProblem problem = forward_problem(pre, inp, Epilogue::kBias);
  context.gemm->own_is_faster(problem, /*sums=*/false, own, in_two_steps) ? own() : in_two_steps();
}

void run(const Context& context, const LinearActivationBackwardInput& op) {
  constexpr const char* kName = "linear_gelu_backward_input";
  const Tensor &dpre = op.dpre, &dbias = op.dbias;
  require_aligned(kName, {dpre, dbias, op.dout, op.weight, op.pre});
  const int64_t N = num_rows(dpre), I = num_columns(dpre);
  const auto by_cublaslt = [&] {
    activation_backward_input(context, op);
    if (!dbias) return;
    column_sums(context.stream, dbias.as<float>(), dpre.data(), dpre.dtype(), N, I, op.accumulate,
                context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
  };
  const GemmSizes sizes{N, I, num_columns(op.dout)};
  if (op.activation != Activation::kGeluTanh || !has_gelu_gemms(dpre.dtype(), sizes))
    return by_cublaslt();
  const auto own = [&] {
    float* sums = nullptr;
    if (dbias)
      sums = static_cast<float*>(
          context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
    gelu_gemm_backward(context.stream,
                       {.dpre = dpre.data(),
                        .column_sums = sums,
                        .dout = op.dout.data(),
                        .weight = op.weight.data(),
                        .pre = op.pre.data(),
                        .tile_counter = context.work_counter},
                       dpre.dtype(), sizes);
    if (dbias) {
      sum_partials(context.stream, {dbias.as<float>()}, sums, num_sum_rows(N), I, I, op.accumulate);
    }
  };
  const GemmProblem problem = input_gradient_problem(dpre, op.dout, Epilogue::kDGelu);
  context.gemm->own_is_faster(problem, !dbias.empty(), own, by_cublaslt) ? own() : by_cublaslt();
}

void run(const Context& context, const LinearBackwardWeight& op) {
  constexpr const char* kName = "linear_backward_weight";
  const Tensor &dbias = op.dbias, &dout = op.dout, &inp = op.inp;
  require_aligned(kName, {op.dweight, dbias, dout, inp});
  const int64_t N = num_rows(dout), O = num_columns(dout);
  const GemmProblem plain = weight_gradient_problem(dout, inp, op.accumulate, Epilogue::kNone);
  GemmOperands operands{op.dweight.data(), inp.data(), dout.data(), nullptr, nullptr};
  if (!dbias) {
    context.gemm->run(plain, operands);
    return;
  }
  // The epilogue assigns. Where sums accumulate it writes to scratch, which is then added as one
  // row.
  auto* memory =
      static_cast<float*>(context.scratch(kName, scratch_bytes(op, context.num_multiprocessors)));
  const GemmProblem fused =
      weight_gradient_problem(dout, inp, op.accumulate, Epilogue::kBiasGradient);
  operands.bias = memory;
  const auto add_up = [&] {  // like column_sums below, but repeatable
    column_sums(context.stream, memory, dout.data(), dout.dtype(), N, O, false, memory);
  };
  if (size_bytes(dout.dtype()) == 2 &&
      context.gemm->fused_is_faster(fused, plain, operands, add_up)) {
    if (!op.accumulate) operands.bias = dbias.data();
    context.gemm->run(fused, operands);
    if (op.accumulate) sum_partials(context.stream, {dbias.as<float>()}, memory, 1, O, O, true);
    return;
  }
  context.gemm->run(plain, operands);
  column_sums(context.stream, dbias.as<float>(), dout.data(), dout.dtype(), N, O, op.accumulate,
              memory);
}

void run(const Context& context, const BatchedProduct& op) {
  require_aligned("batched_product", {op.out, op.a, op.b, op.c});
  const int64_t M = op.out.shape(1), N = op.out.shape(2), K = op.a.shape(2);
  GemmProblem problem;
  problem.m = N;
  problem.n = M;
  problem.k = K;
  problem.transpose_a = op.transposes_b;
  problem.inputs = problem.output = op.out.dtype();
  problem.batch = {.count = op.out.shape(0),
                   .lda = op.transposes_b ? K : N,
                   .stride_a = K * N,
                   .ldb = K,
                   .stride_b = M * K,
                   .ldd = N,
                   .stride_d = M * N};
  context.gemm->run(problem, {.d = op.out.data(),
                              .a = op.b.data(),
                              .b = op.a.data(),
                              .alpha = op.alpha,
                              .c = op.c.data(),
                              .beta = op.beta});
}

// In BLAS's terms out^T (N,M) = b (K,N)^T * a (K,M): the one form of an fp8 product before
// Blackwell.
void run(const Context& context, const Fp8Product& op) {
  // cuBLASLt 13.1 has no algorithm for a scale that is not aligned, and reports no error.
  require_aligned("fp8_product", {op.out, op.a, op.b, op.bias, op.a_scaling, op.b_scaling});
  GemmProblem problem;
  problem.m = op.b.shape(0);
  problem.n = op.a.shape(0);
  problem.k = op.a.shape(1);
  problem.transpose_a = true;
  problem.inputs = op.b.dtype();
  if (op.a.dtype() != op.b.dtype()) problem.b_input = op.a.dtype();
  problem.output = op.out.dtype();
  problem.epilogue = op.bias ? Epilogue::kBias : Epilogue::kNone;
  problem.accumulate = op.accumulate;
  problem.sums_fast = op.sums_fast;
  context.gemm->run(problem, {.d = op.out.data(),
                              .a = op.b.data(),
                              .b = op.a.data(),
                              .bias = op.bias.data(),
                              .a_scale = op.b_scaling.as<const float>(),
                              .b_scale = op.a_scaling.as<const float>()});
}

}  // namespace weft::cuda
