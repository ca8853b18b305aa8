// Backward of the residual norm. A kernel reads its inputs once, as forward's does, except for rows
// beyond 8192 columns in 16 bits or 4096 in fp32, whose dnormed and inp it reads twice. It also
// sums dweight, dbias and the gradient of the branch's bias over the rows of a block in registers;
// a second kernel adds the blocks' sums in order.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/kernels.h"
#include "kernels/cuda/residual_norm/residual_norm_backward_layout.cuh"
#include "kernels/cuda_scratch.h"
#include "kernels/operations/residual_norm.h"

namespace weft::cuda {
namespace {

// Backward through the norm; with `sums_branch` also the gradient of a branch's bias of one row.
void backward_of_norm(cudaStream_t stream, const ResidualNormBackward& args, bool sums_branch,
                      void* scratch) {
  const int64_t N = num_rows(args.dresidual), C = num_columns(args.dresidual);
  // The kernels count rows in 32 bits, and those beyond the last one that they look ahead for.
  if (N > 1 << 30) throw std::invalid_argument("the norm on CUDA: more than 2^30 rows");
  auto* partials = static_cast<float*>(scratch);
  const BackwardArgs device_args{
      args.dresidual.data(),       args.dbranch.data(),         partials,
      args.dnormed.data(),         args.dresidual_in.data(),    args.residual.data(),
      args.mean.as<const float>(), args.rstd.as<const float>(), args.weight.data(),
      static_cast<int>(N),         static_cast<int>(C),         args.weight_offset,
      make_mask(args.dropout)};
  const bool is_rms = args.mean.empty();
  int blocks = 0;
  dispatch_stream(args.dresidual.dtype(), args.weight.dtype(), [&](auto of_stream, auto of_model) {
    using R = decltype(of_stream);
    using X = decltype(of_model);
    blocks = launch_backward<R, X>(stream, device_args, is_rms, sums_branch);
  });
  float* dbranch_bias = sums_branch ? args.dbranch_bias.as<float>() : nullptr;
  const SumTargets targets =
      is_rms ? SumTargets{args.dweight.as<float>(), dbranch_bias}
             : SumTargets{args.dweight.as<float>(), args.dbias.as<float>(), dbranch_bias};
  sum_partials(stream, targets, partials, blocks, num_sums(is_rms, sums_branch) * C, C,
               args.accumulate);
}

}  // namespace

void run(const Context& context, const ResidualNormBackward& op) {
  constexpr const char* kName = "residual_norm_backward";
  require_multiple(kName, "the hidden size", num_columns(op.dresidual), 8);
  require_aligned(kName, {op.dresidual, op.dbranch, op.dbranch_bias, op.dnormed, op.dresidual_in,
                          op.residual, op.weight});
  void* const scratch = context.scratch(kName, scratch_bytes(op, context.num_multiprocessors));
  const cudaStream_t stream = context.stream;
  const bool one_bias_row = op.dbranch_bias && op.bias_period == 1;
  const Tensor& dbranch = op.dbranch ? op.dbranch : op.dresidual;
  if (op.weight) {
    backward_of_norm(stream, op, one_bias_row, scratch);
  } else {
    residual_sum_backward(stream, op);
    if (one_bias_row) {
      column_sums(stream, op.dbranch_bias.as<float>(), dbranch.data(), dbranch.dtype(),
                  num_rows(dbranch), num_columns(dbranch), op.accumulate, scratch);
    }
  }
  if (!op.dbranch_bias || one_bias_row) return;
  if (op.document_bounds) {
    const Tensor& table = op.dbranch_bias;
    if (!op.accumulate) {
      CUDA_CHECK(cudaMemsetAsync(table.data(), 0, static_cast<size_t>(table.num_bytes()), stream));
    }
    document_positions_backward(stream, table.as<float>(), dbranch.data(),
                                op.document_bounds.as<const int32_t>(), dbranch.dtype(),
                                num_rows(dbranch), num_columns(dbranch), op.bias_period,
                                op.first_row, num_rows(table), scratch);
  } else {
    periodic_bias_backward(stream, op, dbranch);
  }
}

}  // namespace weft::cuda
