#include "trainer/model/model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace weft {
namespace {

// Packs iteration, layer and operation into the 63 low bits. The highest bit is clear; initial
// weights have it set.
uint64_t dropout_stream(int64_t iteration, int64_t layer, uint64_t op) {
  return (static_cast<uint64_t>(iteration) << 24 | static_cast<uint64_t>(layer) << 4 | op) &
         ~(uint64_t{1} << 63);
}

void check_layout(const ParallelLayout& layout) {
  if (layout.world_size() == 1) return;
  throw std::invalid_argument("model: tensor-parallel size " + std::to_string(layout.tp_size) +
                              ", pipeline size " + std::to_string(layout.pp_size) +
                              ", data-parallel size " + std::to_string(layout.dp_size) +
                              ": only 1, 1 and 1 are built");
}

void check_shape(const ModelShape& shape, DeviceKind device) {
  if (shape.seq_length > shape.max_positions) {
    throw std::invalid_argument("model: sequence length " + std::to_string(shape.seq_length) +
                                " exceeds the position table (" +
                                std::to_string(shape.max_positions) + ")");
  }
  const int64_t D = shape.head_size;
  if (device == DeviceKind::kCuda && D != 64 && D != 96 && D != 128) {
    throw std::invalid_argument("model: head size " + std::to_string(D) +
                                " on CUDA: attention is built for 64, 96 and 128; "
                                "choose the number of heads accordingly, or --device cpu");
  }
}

// Returns a tensor (B,T,...) as rows (N,columns).
Tensor rows(Tensor t, int64_t columns) {
  return Tensor(t.data(), t.dtype(), {t.num_elements() / columns, columns});
}

}  // namespace

ModelParameters::ModelParameters(const ParameterTable& table, const ModelShape& shape,
                                 Tensor arena) {
  const auto view = [&](const std::string& name) {
    return ParameterTable::slice(arena, table.find(name));
  };
  word = view("embedding.word_embeddings.weight");
  position = view("embedding.position_embeddings.weight");
  final_ln_weight = view("decoder.final_layernorm.weight");
  final_ln_bias = view("decoder.final_layernorm.bias");
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
    LayerParameters p;
    p.ln1_weight = view(prefix + "input_layernorm.weight");
    p.ln1_bias = view(prefix + "input_layernorm.bias");
    p.qkv_weight = view(prefix + "self_attention.linear_qkv.weight");
    p.qkv_bias = view(prefix + "self_attention.linear_qkv.bias");
    p.proj_weight = view(prefix + "self_attention.linear_proj.weight");
    p.proj_bias = view(prefix + "self_attention.linear_proj.bias");
    p.ln2_weight = view(prefix + "pre_mlp_layernorm.weight");
    p.ln2_bias = view(prefix + "pre_mlp_layernorm.bias");
    p.fc1_weight = view(prefix + "mlp.linear_fc1.weight");
    p.fc1_bias = view(prefix + "mlp.linear_fc1.bias");
    p.fc2_weight = view(prefix + "mlp.linear_fc2.weight");
    p.fc2_bias = view(prefix + "mlp.linear_fc2.bias");
    layers.push_back(p);
  }
}

Model::Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
             const ParallelLayout& layout, MemoryPlan& plan)
    : backend_(backend),
      tensor_parallel_(tensor_parallel),
      shape_(shape),
      layout_(layout),
      heads_(shape.num_heads / layout.tp_size),
      ffn_(shape.ffn_size / layout.tp_size),
      vocab_rows_(shape.padded_vocab_size / layout.tp_size),
      layers_(static_cast<size_t>(shape.num_layers)) {
  check_layout(layout);
  check_shape(shape, backend.kind());
  plan_buffers(plan);
}

void Model::plan_buffers(MemoryPlan& plan) {
  const int64_t B = shape_.micro_batch_size, T = shape_.seq_length, N = B * T;
  const int64_t C = shape_.hidden_size, D = shape_.head_size;
  const DType x = shape_.dtype, f = DType::kFloat32;
  const auto keep = MemoryClass::kActivations, scratch = MemoryClass::kScratch;
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerActivations& a = layers_[i];
    const std::string prefix = "layer " + std::to_string(i) + " ";
    plan.add(keep, prefix + "residual", &a.residual, x, {N, C});
    plan.add(keep, prefix + "ln1", &a.ln1, x, {N, C});
    plan.add(keep, prefix + "mean1", &a.mean1, f, {N});
    plan.add(keep, prefix + "rstd1", &a.rstd1, f, {N});
    plan.add(keep, prefix + "qkv", &a.qkv, x, {B, T, heads_, 3, D});
    plan.add(keep, prefix + "att", &a.att, x, {B, T, heads_, D});
    plan.add(keep, prefix + "lse", &a.lse, f, {B, heads_, T});
    plan.add(keep, prefix + "residual_mid", &a.residual_mid, x, {N, C});
    plan.add(keep, prefix + "ln2", &a.ln2, x, {N, C});
    plan.add(keep, prefix + "mean2", &a.mean2, f, {N});
    plan.add(keep, prefix + "rstd2", &a.rstd2, f, {N});
    plan.add(keep, prefix + "fc1_pre", &a.fc1_pre, x, {N, ffn_});
    plan.add(keep, prefix + "fc1", &a.fc1, x, {N, ffn_});
  }
  plan.add(keep, "final residual", &final_residual_, x, {N, C});
  plan.add(keep, "final ln", &final_ln_, x, {N, C});
  plan.add(keep, "final mean", &final_mean_, f, {N});
  plan.add(keep, "final rstd", &final_rstd_, f, {N});
  plan.add(scratch, "branch", &branch_, x, {N, C});
  plan.add(scratch, "dresidual", &dresidual_, x, {N, C});
  plan.add(scratch, "dnormed", &dnormed_, x, {N, std::max(C, heads_ * D)});
  plan.add(scratch, "dwide", &dwide_, x, {N, std::max(ffn_, 3 * heads_ * D)});
  plan.add(MemoryClass::kLogits, "logits", &logits_, x, {N, vocab_rows_});
  plan.add(MemoryClass::kLogits, "losses", &losses_, f, {N});
}

WorkspaceShape Model::workspace_shape(int64_t num_parameters) const {
  WorkspaceShape w;
  w.B = shape_.micro_batch_size;
  w.T = shape_.seq_length;
  w.C = shape_.hidden_size;
  w.H = heads_;
  w.D = shape_.head_size;
  w.F = ffn_;
  w.Vp = vocab_rows_;
  w.num_parameters = num_parameters;
  w.x = shape_.dtype;
  return w;
}

void Model::bind(const ParameterTable& table, Tensor parameters, Tensor gradients) {
  weights_ = ModelParameters(table, shape_, parameters);
  gradients_ = ModelParameters(table, shape_, gradients);
}

Dropout Model::hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const {
  const int64_t per_sample = shape_.seq_length * shape_.hidden_size;
  return {shape_.hidden_dropout, shape_.seed,
          dropout_stream(batch.iteration, layer, static_cast<uint64_t>(op)),
          static_cast<uint64_t>(batch.first_sample * per_sample)};
}

Dropout Model::attention_dropout(const MicroBatch& batch, int64_t layer) const {
  const int64_t per_sample = shape_.num_heads * shape_.seq_length * shape_.seq_length;
  return {shape_.attention_dropout, shape_.seed,
          dropout_stream(batch.iteration, layer, static_cast<uint64_t>(Op::kAttention)),
          static_cast<uint64_t>(batch.first_sample * per_sample)};
}

void Model::reduce_over_tensor_parallel(Tensor partial) {
  if (tensor_parallel_.size() > 1) tensor_parallel_.all_reduce(partial, Reduce::kSum);
}

void Model::forward(const MicroBatch& batch, bool training) {
  LayerActivations& first = layers_[0];
  const LayerParameters& w = weights_.layers[0];
  const Dropout dropout = training ? hidden_dropout(batch, 0, Op::kEmbedding) : Dropout{};
  const int64_t B = shape_.micro_batch_size, T = shape_.seq_length;
  const Tensor embedded(first.residual.data(), shape_.dtype, {B, T, shape_.hidden_size});
  backend_.embedding_forward(embedded, batch.tokens, weights_.word, weights_.position,
                             layout_.tp_rank * vocab_rows_, dropout);
  reduce_over_tensor_parallel(embedded);
  backend_.layernorm_forward(first.ln1, first.mean1, first.rstd1, first.residual, w.ln1_weight,
                             w.ln1_bias, shape_.layernorm_epsilon);
  for (int64_t layer = 0; layer < shape_.num_layers; ++layer) {
    forward_layer(layer, batch, training);
  }
  backend_.linear_forward(logits_, final_ln_, weights_.word, Tensor());
}

// Computes everything from this layer's ln1 to the next layer's: each residual addition is fused
// with the LayerNorm that follows it.
void Model::forward_layer(int64_t layer, const MicroBatch& batch, bool training) {
  LayerActivations& a = layers_[static_cast<size_t>(layer)];
  const LayerParameters& w = weights_.layers[static_cast<size_t>(layer)];
  const bool is_last = layer + 1 == shape_.num_layers;
  const Dropout no_dropout;
  // Row-parallel outputs are summed over ranks, so only one rank adds the bias.
  const bool adds_bias = layout_.tp_rank == 0;
  const int64_t att_columns = heads_ * shape_.head_size;
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_size));

  backend_.linear_forward(rows(a.qkv, 3 * att_columns), a.ln1, w.qkv_weight, w.qkv_bias);
  backend_.attention_forward(a.att, a.lse, a.qkv, scale,
                             training ? attention_dropout(batch, layer) : no_dropout);
  backend_.linear_forward(branch_, rows(a.att, att_columns), w.proj_weight,
                          adds_bias ? w.proj_bias : Tensor());
  reduce_over_tensor_parallel(branch_);
  backend_.residual_layernorm_forward(
      a.ln2, a.residual_mid, a.mean2, a.rstd2, a.residual, branch_, w.ln2_weight, w.ln2_bias,
      shape_.layernorm_epsilon,
      training ? hidden_dropout(batch, layer, Op::kAttentionBranch) : no_dropout);

  backend_.linear_gelu_forward(a.fc1, a.fc1_pre, a.ln2, w.fc1_weight, w.fc1_bias, shape_.gelu);
  backend_.linear_forward(branch_, a.fc1, w.fc2_weight, adds_bias ? w.fc2_bias : Tensor());
  reduce_over_tensor_parallel(branch_);
  const Dropout dropout = training ? hidden_dropout(batch, layer, Op::kMlpBranch) : no_dropout;
  if (is_last) {
    backend_.residual_layernorm_forward(final_ln_, final_residual_, final_mean_, final_rstd_,
                                        a.residual_mid, branch_, weights_.final_ln_weight,
                                        weights_.final_ln_bias, shape_.layernorm_epsilon, dropout);
  } else {
    LayerActivations& next = layers_[static_cast<size_t>(layer) + 1];
    const LayerParameters& next_w = weights_.layers[static_cast<size_t>(layer) + 1];
    backend_.residual_layernorm_forward(next.ln1, next.residual, next.mean1, next.rstd1,
                                        a.residual_mid, branch_, next_w.ln1_weight, next_w.ln1_bias,
                                        shape_.layernorm_epsilon, dropout);
  }
}

void Model::loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate,
                 bool gradient, float gradient_scale) {
  const int64_t N = losses_.num_elements();
  const Tensor targets(batch.targets.data(), DType::kInt32, {N});
  const Tensor mask =
      batch.loss_mask ? Tensor(batch.loss_mask.data(), DType::kFloat32, {N}) : Tensor();
  // Padded vocabulary rows take part in the softmax, as in Megatron.
  backend_.cross_entropy(losses_, logits_, targets, mask, shape_.padded_vocab_size, gradient_scale,
                         gradient);
  backend_.sum(loss, losses_, loss_scale, accumulate);
}

void Model::backward(const MicroBatch& batch, bool accumulate) {
  const int64_t last = shape_.num_layers - 1;
  const Tensor dfinal_ln(dnormed_.data(), shape_.dtype,
                         {losses_.num_elements(), shape_.hidden_size});
  // The head and the embedding share their weights. The head's gradient comes first (and is
  // assigned on the first micro-batch), the embedding's is added at the very end.
  backend_.linear_backward_weight(gradients_.word, Tensor(), logits_, final_ln_, accumulate);
  backend_.linear_backward_input(dfinal_ln, logits_, weights_.word);
  reduce_over_tensor_parallel(dfinal_ln);
  const Dropout dropout = hidden_dropout(batch, last, Op::kMlpBranch);
  backend_.layernorm_backward(dresidual_, dropout.p > 0 ? branch_ : Tensor(),
                              gradients_.final_ln_weight, gradients_.final_ln_bias, dfinal_ln,
                              Tensor(), final_residual_, final_mean_, final_rstd_,
                              weights_.final_ln_weight, dropout, accumulate);
  for (int64_t layer = last; layer >= 0; --layer) backward_layer(layer, batch, accumulate);

  const int64_t B = shape_.micro_batch_size, T = shape_.seq_length;
  const Tensor dembedded(dresidual_.data(), shape_.dtype, {B, T, shape_.hidden_size});
  if (!accumulate) backend_.zero(gradients_.position);  // embedding_backward always adds
  backend_.embedding_backward(gradients_.word, gradients_.position, dembedded, batch.tokens,
                              layout_.tp_rank * vocab_rows_,
                              hidden_dropout(batch, 0, Op::kEmbedding));
}

// Turns the gradient of this layer's output (dresidual_, and branch_ behind dropout) into the
// gradient of its input.
void Model::backward_layer(int64_t layer, const MicroBatch& batch, bool accumulate) {
  const LayerActivations& a = layers_[static_cast<size_t>(layer)];
  const LayerParameters& w = weights_.layers[static_cast<size_t>(layer)];
  const LayerParameters& dw = gradients_.layers[static_cast<size_t>(layer)];
  const int64_t N = losses_.num_elements(), C = shape_.hidden_size, D = shape_.head_size;
  const int64_t att_columns = heads_ * D;
  const float scale = 1.0F / std::sqrt(static_cast<float>(D));
  // Without dropout the gradient of a branch is that of the skip connection: no copy is written.
  const Tensor dbranch_out = shape_.hidden_dropout > 0 ? branch_ : Tensor();
  const Tensor dbranch = dbranch_out ? branch_ : dresidual_;
  const Tensor dln(dnormed_.data(), shape_.dtype, {N, C});

  const Tensor dfc1(dwide_.data(), shape_.dtype, {N, ffn_});
  backend_.linear_backward_weight(dw.fc2_weight, dw.fc2_bias, dbranch, a.fc1, accumulate);
  backend_.linear_gelu_backward_input(dfc1, dbranch, w.fc2_weight, a.fc1_pre, shape_.gelu);
  backend_.linear_backward_weight(dw.fc1_weight, dw.fc1_bias, dfc1, a.ln2, accumulate);
  backend_.linear_backward_input(dln, dfc1, w.fc1_weight);
  reduce_over_tensor_parallel(dln);
  backend_.layernorm_backward(dresidual_, dbranch_out, dw.ln2_weight, dw.ln2_bias, dln, dresidual_,
                              a.residual_mid, a.mean2, a.rstd2, w.ln2_weight,
                              hidden_dropout(batch, layer, Op::kAttentionBranch), accumulate);

  const Tensor datt(dnormed_.data(), shape_.dtype, {a.att.shape(0), a.att.shape(1), heads_, D});
  const Tensor dqkv(dwide_.data(), shape_.dtype, {a.att.shape(0), a.att.shape(1), heads_, 3, D});
  backend_.linear_backward_weight(dw.proj_weight, dw.proj_bias, dbranch, rows(a.att, att_columns),
                                  accumulate);
  backend_.linear_backward_input(rows(datt, att_columns), dbranch, w.proj_weight);
  backend_.attention_backward(dqkv, datt, a.att, a.lse, a.qkv, scale,
                              attention_dropout(batch, layer));
  const Tensor dqkv_rows = rows(dqkv, 3 * att_columns);
  backend_.linear_backward_weight(dw.qkv_weight, dw.qkv_bias, dqkv_rows, a.ln1, accumulate);
  backend_.linear_backward_input(dln, dqkv_rows, w.qkv_weight);
  reduce_over_tensor_parallel(dln);
  // The input of LN1 is the previous layer's MLP branch added to its skip connection. Below layer 0
  // lies the embedding, which applies its own dropout.
  const bool has_branch = layer > 0;
  backend_.layernorm_backward(
      dresidual_, has_branch ? dbranch_out : Tensor(), dw.ln1_weight, dw.ln1_bias, dln, dresidual_,
      a.residual, a.mean1, a.rstd1, w.ln1_weight,
      has_branch ? hidden_dropout(batch, layer - 1, Op::kMlpBranch) : Dropout{}, accumulate);
}

}  // namespace weft
