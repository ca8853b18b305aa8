#include "trainer/model/residual_stream.h"

#include <algorithm>

namespace weft {

void ResidualStream::for_each_buffer(const AddBuffer& add) {
  const int64_t N = shape_.num_tokens(), R = shape_.num_rows(), C = shape_.model.hidden_size;
  const DType x = shape_.model.dtype, r = shape_.model.residual_dtype();
  const auto scratch = MemoryClass::kScratch;
  if (shape_.model.hidden_dropout > 0 || r != x) add(scratch, "dbranch", &dbranch_, x, {R, C});
  if (shape_.shares_rows()) {
    add(scratch, "all rows", &all_rows_, x, {N, C});
    add(scratch, "partial sums", &partials_, x, {N, C});
  }
  add(scratch, "dresidual", &dresidual_, r, {R, C});
  add(scratch, "branch or dnormed", &branch_, x, {std::max(R * C, N * shape_.attention_size())});
  for (Tensor& gradient : output_gradients_) add(scratch, "output gradient", &gradient, r, {R, C});
}

void ResidualStream::create_events() {
  computed_ = backend_.create_event();
  rows_gathered_ = backend_.create_event();
  summed_ = backend_.create_event();
}

Tensor ResidualStream::dattention() const {
  const ModelShape& model = shape_.model;
  return view(branch_,
              {model.micro_batch_size, model.seq_length, shape_.num_heads(), model.head_size});
}

Dropout ResidualStream::dropout(const MicroBatch& batch, int64_t layer, DropoutSite site) const {
  const int64_t C = shape_.model.hidden_size, per_sample = shape_.model.seq_length * C;
  return {shape_.model.hidden_dropout, shape_.model.seed, dropout_stream(batch, layer, site),
          static_cast<uint64_t>(batch.first_sample * per_sample + shape_.first_row() * C)};
}

void ResidualStream::forward(const Branch& branch, const Norm& norm, Tensor out,
                             const Fp8Output& fp8) {
  backend_.run(ResidualNormForward{.normed = out,
                                   .normed_fp8 = fp8,
                                   .residual_out = branch.output ? norm.sum : Tensor(),
                                   .mean = norm.mean,
                                   .rstd = norm.rstd,
                                   .residual = branch.residual,
                                   .branch = branch.output,
                                   .branch_bias = branch.bias,
                                   .bias_period = branch.bias_period,
                                   .first_row = branch.first_row,
                                   .document_bounds = branch.document_bounds,
                                   .weight = norm.weight,
                                   .bias = norm.bias,
                                   .weight_offset = shape_.model.norm_weight_offset(),
                                   .epsilon = shape_.model.layernorm_epsilon,
                                   .dropout = branch.dropout});
}

void ResidualStream::backward(const Branch& branch, const Norm& norm, Tensor dout,
                              Tensor dresidual_in, bool accumulate) {
  const Tensor sum = branch.output ? norm.sum : branch.residual;
  backend_.run(ResidualNormBackward{.dresidual = dresidual_,
                                    .dbranch = branch.output ? dbranch_ : Tensor(),
                                    .dbranch_bias = branch.dbias,
                                    .dweight = norm.dweight,
                                    .dbias = norm.dbias,
                                    .dnormed = dout,
                                    .dresidual_in = dresidual_in,
                                    .residual = norm.weight ? sum : Tensor(),
                                    .mean = norm.mean,
                                    .rstd = norm.rstd,
                                    .weight = norm.weight,
                                    .weight_offset = shape_.model.norm_weight_offset(),
                                    .bias_period = branch.bias_period,
                                    .first_row = branch.first_row,
                                    .document_bounds = branch.document_bounds,
                                    .dropout = branch.dropout,
                                    .accumulate = accumulate});
}

void ResidualStream::recompute(const Norm& norm) {
  forward({.residual = norm.sum}, norm, norm.out);
}

Tensor ResidualStream::gather_rows(Tensor own) {
  if (shape_.shares_rows()) tensor_parallel_.all_gather(all_rows_, own, Stream::kCompute);
  return rows_gathered_last(own);
}

void ResidualStream::sum_partials(Tensor own, Stream stream) {
  if (shape_.shares_rows()) {
    tensor_parallel_.reduce_scatter(own, partials_, stream);
  } else if (shape_.layout.tp_size > 1) {
    tensor_parallel_.all_reduce(own, Reduce::kSum, stream);
  }
}

void ResidualStream::start_gathering_rows(Tensor own) {
  if (!shape_.shares_rows()) return;
  backend_.record(computed_, Stream::kCompute);
  backend_.wait(Stream::kCommunication, computed_);
  tensor_parallel_.all_gather(all_rows_, own, Stream::kCommunication);
  backend_.record(rows_gathered_, Stream::kCommunication);
}

Tensor ResidualStream::gathered_rows(Tensor own) {
  if (shape_.shares_rows()) backend_.wait(Stream::kCompute, rows_gathered_);
  return rows_gathered_last(own);
}

void ResidualStream::start_summing_partials(Tensor own) {
  if (shape_.layout.tp_size == 1) return;
  backend_.record(computed_, Stream::kCompute);
  backend_.wait(Stream::kCommunication, computed_);
  sum_partials(own, Stream::kCommunication);
  backend_.record(summed_, Stream::kCommunication);
}

void ResidualStream::wait_for_sums() {
  if (shape_.layout.tp_size > 1) backend_.wait(Stream::kCompute, summed_);
}

}  // namespace weft
