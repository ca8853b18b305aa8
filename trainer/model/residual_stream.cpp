// The residual stream: what is added to it where, with which dropout, and how tensor-parallel ranks
// share it.
//
// Without sequence parallelism every rank has all N rows, and the partial sums of row-parallel
// products are all-reduced. With it rank r has rows [r*N/tp, (r+1)*N/tp) of LayerNorms, residuals
// and dropout: rows are gathered before a column-parallel product, and its partial sums are
// reduce-scattered. [Korthikanti et al. 2022, arXiv:2205.05198, by rows instead of positions]
#include "trainer/model/model.h"

namespace weft {
namespace {

// Packs iteration, layer and operation into the 63 low bits. The highest bit is clear; initial
// weights have it set.
uint64_t dropout_stream(int64_t iteration, int64_t layer, uint64_t op) {
  return (static_cast<uint64_t>(iteration) << 24 | static_cast<uint64_t>(layer) << 4 | op) &
         ~(uint64_t{1} << 63);
}

}  // namespace

Tensor Model::gather_rows(Tensor own) {
  if (!shares_rows()) return own;
  tensor_parallel_.all_gather(all_rows_, own, Stream::kCompute);
  return all_rows_;
}

void Model::sum_partials(Tensor own) {
  if (shares_rows()) {
    tensor_parallel_.reduce_scatter(own, partials_, Stream::kCompute);
  } else if (layout_.tp_size > 1) {
    tensor_parallel_.all_reduce(own, Reduce::kSum, Stream::kCompute);
  }
}

void Model::start_gathering_rows(Tensor own) {
  if (!shares_rows()) return;
  backend_.record(computed_, Stream::kCompute);
  backend_.wait(Stream::kCommunication, computed_);
  tensor_parallel_.all_gather(all_rows_, own, Stream::kCommunication);
  backend_.record(rows_gathered_, Stream::kCommunication);
}

Tensor Model::gathered_rows(Tensor own) {
  if (!shares_rows()) return own;
  backend_.wait(Stream::kCompute, rows_gathered_);
  return all_rows_;
}

void Model::start_summing_partials(Tensor own) {
  if (layout_.tp_size == 1) return;
  backend_.record(computed_, Stream::kCompute);
  backend_.wait(Stream::kCommunication, computed_);
  if (shares_rows()) {
    tensor_parallel_.reduce_scatter(own, partials_, Stream::kCommunication);
  } else {
    tensor_parallel_.all_reduce(own, Reduce::kSum, Stream::kCommunication);
  }
  backend_.record(summed_, Stream::kCommunication);
}

void Model::wait_for_sums() {
  if (layout_.tp_size > 1) backend_.wait(Stream::kCompute, summed_);
}

Dropout Model::hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const {
  const int64_t per_sample = shape_.seq_length * shape_.hidden_size;
  return {
      shape_.hidden_dropout, shape_.seed,
      dropout_stream(batch.iteration, layer, static_cast<uint64_t>(op)),
      static_cast<uint64_t>(batch.first_sample * per_sample + first_row() * shape_.hidden_size)};
}

Dropout Model::attention_dropout(const MicroBatch& batch, int64_t layer) const {
  const int64_t per_sample = shape_.num_heads * 32 * attention_mask_words(shape_.seq_length);
  return {shape_.attention_dropout, shape_.seed,
          dropout_stream(batch.iteration, layer, static_cast<uint64_t>(Op::kAttention)),
          static_cast<uint64_t>(batch.first_sample * per_sample)};
}

Model::Branch Model::branch_before(int64_t i, const MicroBatch& batch, bool training) const {
  Branch branch;
  if (i > 0) {
    const auto before = static_cast<size_t>(i - 1);
    branch.residual = layer(i - 1).residual_mid;
    branch.output = branch_output();
    branch.bias = weights().layers[before].fc2_bias;
    branch.dbias = gradients().layers[before].fc2_bias;
    if (training)
      branch.dropout = hidden_dropout(batch, chunk().first_layer + i - 1, Op::kMlpBranch);
  } else if (chunk().has_embedding) {
    branch.output = branch_output();
    if (shape_.has_position_table) {
      branch.bias = weights().position;
      branch.dbias = gradients().position;
      branch.bias_period = shape_.seq_length;
      branch.first_row = first_row();
      if (shape_.restarts_positions) branch.document_bounds = batch.document_bounds;
    }
    if (training) branch.dropout = hidden_dropout(batch, 0, Op::kEmbedding);
  } else {
    branch.residual = input(static_cast<int64_t>(slot_));
  }
  return branch;
}

Model::Branch Model::attention_branch(int64_t i, const MicroBatch& batch, bool training) const {
  const auto idx = static_cast<size_t>(i);
  Branch branch;
  branch.residual = layer(i).residual;
  branch.output = branch_output();
  branch.bias = weights().layers[idx].proj_bias;
  branch.dbias = gradients().layers[idx].proj_bias;
  if (training) {
    branch.dropout = hidden_dropout(batch, chunk().first_layer + i, Op::kAttentionBranch);
  }
  return branch;
}

}  // namespace weft
