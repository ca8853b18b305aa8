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
  if (layout.tp_size == 1 && layout.pp_size == 1) return;
  throw std::invalid_argument("model: tensor-parallel size " + std::to_string(layout.tp_size) +
                              ", pipeline size " + std::to_string(layout.pp_size) +
                              ": only 1 and 1 are built");
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

ModelParameters::ModelParameters(const ParameterTable& table, Tensor arena) {
  const auto view = [&](const std::string& name) {
    return ParameterTable::slice(arena, table.find(name));
  };
  const Chunk& chunk = table.chunk();
  if (chunk.has_embedding || chunk.has_head) word = view("embedding.word_embeddings.weight");
  if (chunk.has_embedding) position = view("embedding.position_embeddings.weight");
  if (chunk.has_head) {
    final_ln_weight = view("decoder.final_layernorm.weight");
    final_ln_bias = view("decoder.final_layernorm.bias");
  }
  for (int64_t i = 0; i < chunk.num_layers; ++i) {
    const std::string prefix = "decoder.layers." + std::to_string(chunk.first_layer + i) + ".";
    layers.push_back({.ln1_weight = view(prefix + "input_layernorm.weight"),
                      .ln1_bias = view(prefix + "input_layernorm.bias"),
                      .qkv_weight = view(prefix + "self_attention.linear_qkv.weight"),
                      .qkv_bias = view(prefix + "self_attention.linear_qkv.bias"),
                      .proj_weight = view(prefix + "self_attention.linear_proj.weight"),
                      .proj_bias = view(prefix + "self_attention.linear_proj.bias"),
                      .ln2_weight = view(prefix + "pre_mlp_layernorm.weight"),
                      .ln2_bias = view(prefix + "pre_mlp_layernorm.bias"),
                      .fc1_weight = view(prefix + "mlp.linear_fc1.weight"),
                      .fc1_bias = view(prefix + "mlp.linear_fc1.bias"),
                      .fc2_weight = view(prefix + "mlp.linear_fc2.weight"),
                      .fc2_bias = view(prefix + "mlp.linear_fc2.bias")});
  }
}

Model::Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
             const ParallelLayout& layout, MemoryPlan& plan)
    : backend_(backend),
      tensor_parallel_(tensor_parallel),
      shape_(shape),
      layout_(layout),
      chunk_(chunk_of(shape, layout)),
      heads_(shape.num_heads / layout.tp_size),
      ffn_(shape.ffn_size / layout.tp_size),
      vocab_rows_(shape.padded_vocab_size / layout.tp_size),
      layers_(static_cast<size_t>(chunk_.num_layers)) {
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
    const std::string prefix =
        "layer " + std::to_string(chunk_.first_layer + static_cast<int64_t>(i)) + " ";
    plan.add(keep, prefix + "residual", &a.residual, x, {N, C});
    plan.add(keep, prefix + "ln1", &a.ln1, x, {N, C});
    plan.add(keep, prefix + "mean1", &a.mean1, f, {N});
    plan.add(keep, prefix + "rstd1", &a.rstd1, f, {N});
    plan.add(keep, prefix + "qkv", &a.qkv, x, {B, T, heads_, 3, D});
    plan.add(keep, prefix + "att", &a.att, x, {B, T, heads_, D});
    plan.add(keep, prefix + "lse", &a.lse, f, {B, heads_, T});
    if (shape_.attention_dropout > 0) {
      plan.add(keep, prefix + "dropout bits", &a.kept, DType::kInt32,
               {B, heads_, attention_mask_words(T)});
    }
    plan.add(keep, prefix + "residual_mid", &a.residual_mid, x, {N, C});
    plan.add(keep, prefix + "ln2", &a.ln2, x, {N, C});
    plan.add(keep, prefix + "mean2", &a.mean2, f, {N});
    plan.add(keep, prefix + "rstd2", &a.rstd2, f, {N});
    plan.add(keep, prefix + "fc1_pre", &a.fc1_pre, x, {N, ffn_});
    plan.add(keep, prefix + "fc1", &a.fc1, x, {N, ffn_});
  }
  plan.add(keep, "final residual", &final_residual_, x, {N, C});
  if (chunk_.has_head) {
    plan.add(keep, "final ln", &final_ln_, x, {N, C});
    plan.add(keep, "final mean", &final_mean_, f, {N});
    plan.add(keep, "final rstd", &final_rstd_, f, {N});
  }
  plan.add(scratch, "branch", &branch_, x, {N, C});
  plan.add(scratch, "dresidual", &dresidual_, x, {N, C});
  plan.add(scratch, "dnormed", &dnormed_, x, {N, std::max(C, heads_ * D)});
  plan.add(scratch, "dwide", &dwide_, x, {N, std::max(ffn_, 3 * heads_ * D)});
  if (chunk_.has_head) {
    plan.add(MemoryClass::kLogits, "logits", &logits_, x, {N, vocab_rows_});
    plan.add(MemoryClass::kLogits, "losses", &losses_, f, {N});
  }
}

WorkspaceShape Model::workspace_shape(int64_t num_parameters) const {
  WorkspaceShape w;
  w.B = shape_.micro_batch_size;
  w.T = shape_.seq_length;
  w.C = shape_.hidden_size;
  w.H = heads_;
  w.D = shape_.head_size;
  w.F = ffn_;
  w.Vp = chunk_.has_head ? vocab_rows_ : 0;
  w.num_parameters = num_parameters;
  w.x = shape_.dtype;
  w.gelu = shape_.gelu;
  return w;
}

void Model::bind(const ParameterTable& table, Tensor parameters, Tensor gradients) {
  weights_ = ModelParameters(table, parameters);
  gradients_ = ModelParameters(table, gradients);
  arena_ends_.clear();
  for (int64_t i = 0; i < chunk_.num_layers; ++i) {
    // The bias of qkv is the last parameter of a layer that tensor parallelism shards; replicated
    // ones lie at the end of the arena (parameters.h).
    const Parameter& parameter =
        table.find("decoder.layers." + std::to_string(chunk_.first_layer + i) +
                   ".self_attention.linear_qkv.bias");
    arena_ends_.push_back(parameter.arena_offset + parameter.num_elements);
  }
}

Dropout Model::hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const {
  const int64_t per_sample = shape_.seq_length * shape_.hidden_size;
  return {shape_.hidden_dropout, shape_.seed,
          dropout_stream(batch.iteration, layer, static_cast<uint64_t>(op)),
          static_cast<uint64_t>(batch.first_sample * per_sample)};
}

Dropout Model::attention_dropout(const MicroBatch& batch, int64_t layer) const {
  const int64_t T = shape_.seq_length;
  const int64_t per_sample = shape_.num_heads * T * attention_mask_length(T);
  return {shape_.attention_dropout, shape_.seed,
          dropout_stream(batch.iteration, layer, static_cast<uint64_t>(Op::kAttention)),
          static_cast<uint64_t>(batch.first_sample * per_sample)};
}

Heads Model::own_heads() const { return {layout_.tp_rank * heads_, shape_.num_heads}; }

float Model::attention_scale() const {
  return 1.0F / std::sqrt(static_cast<float>(shape_.head_size));
}

void Model::reduce_over_tensor_parallel(Tensor partial) {
  if (tensor_parallel_.size() > 1)
    tensor_parallel_.all_reduce(partial, Reduce::kSum, Stream::kCompute);
}

Tensor Model::embedded(Tensor rows) const {
  return Tensor(rows.data(), rows.dtype(),
                {shape_.micro_batch_size, shape_.seq_length, shape_.hidden_size});
}

Model::Branch Model::branch_before(int64_t i, const MicroBatch& batch, bool training) const {
  Branch branch;
  const int64_t layer = chunk_.first_layer + i - 1;
  if (i > 0) {
    const auto before = static_cast<size_t>(i - 1);
    branch.residual = layers_[before].residual_mid;
    branch.output = branch_;
    branch.bias = weights_.layers[before].fc2_bias;
    branch.dbias = gradients_.layers[before].fc2_bias;
    if (training) branch.dropout = hidden_dropout(batch, layer, Op::kMlpBranch);
  } else if (chunk_.has_embedding) {
    branch.output = branch_;
    branch.bias = weights_.position;
    branch.dbias = gradients_.position;
    branch.bias_period = shape_.seq_length;
    if (training) branch.dropout = hidden_dropout(batch, 0, Op::kEmbedding);
  } else {
    branch.residual = layers_[0].residual;
  }
  return branch;
}

Model::Branch Model::attention_branch(int64_t i, const MicroBatch& batch, bool training) const {
  const auto idx = static_cast<size_t>(i);
  Branch branch;
  branch.residual = layers_[idx].residual;
  branch.output = branch_;
  branch.bias = weights_.layers[idx].proj_bias;
  branch.dbias = gradients_.layers[idx].proj_bias;
  if (training) {
    branch.dropout = hidden_dropout(batch, chunk_.first_layer + i, Op::kAttentionBranch);
  }
  return branch;
}

void Model::forward(const MicroBatch& batch, bool training) {
  if (chunk_.has_embedding) {
    backend_.embedding_forward(embedded(branch_), batch.tokens, weights_.word,
                               layout_.tp_rank * vocab_rows_);
    reduce_over_tensor_parallel(branch_);
  }
  for (int64_t i = 0; i < chunk_.num_layers; ++i) forward_layer(i, batch, training);
  forward_end(batch, training);
}

void Model::forward_layer(int64_t i, const MicroBatch& batch, bool training) {
  LayerActivations& a = layers_[static_cast<size_t>(i)];
  const LayerParameters& w = weights_.layers[static_cast<size_t>(i)];
  const int64_t att_columns = heads_ * shape_.head_size;

  const Branch in = branch_before(i, batch, training);
  backend_.residual_norm_forward({.normed = a.ln1,
                                  .residual_out = in.output ? a.residual : Tensor(),
                                  .mean = a.mean1,
                                  .rstd = a.rstd1,
                                  .residual = in.residual,
                                  .branch = in.output,
                                  .branch_bias = in.bias,
                                  .bias_period = in.bias_period,
                                  .weight = w.ln1_weight,
                                  .bias = w.ln1_bias,
                                  .epsilon = shape_.layernorm_epsilon,
                                  .dropout = in.dropout});
  backend_.linear_forward(rows(a.qkv, 3 * att_columns), a.ln1, w.qkv_weight, w.qkv_bias);
  backend_.attention_forward(
      {.out = a.att,
       .lse = a.lse,
       .kept = a.kept,
       .qkv = a.qkv,
       .scale = attention_scale(),
       .heads = own_heads(),
       .dropout = training ? attention_dropout(batch, chunk_.first_layer + i) : Dropout{}});
  backend_.linear_forward(branch_, rows(a.att, att_columns), w.proj_weight, Tensor());
  reduce_over_tensor_parallel(branch_);

  const Branch attention = attention_branch(i, batch, training);
  backend_.residual_norm_forward({.normed = a.ln2,
                                  .residual_out = a.residual_mid,
                                  .mean = a.mean2,
                                  .rstd = a.rstd2,
                                  .residual = attention.residual,
                                  .branch = attention.output,
                                  .branch_bias = attention.bias,
                                  .weight = w.ln2_weight,
                                  .bias = w.ln2_bias,
                                  .epsilon = shape_.layernorm_epsilon,
                                  .dropout = attention.dropout});
  backend_.linear_gelu_forward(a.fc1, a.fc1_pre, a.ln2, w.fc1_weight, w.fc1_bias, shape_.gelu);
  backend_.linear_forward(branch_, a.fc1, w.fc2_weight, Tensor());
  reduce_over_tensor_parallel(branch_);
}

// Adds the last layer's branch; with the head, computes the logits.
void Model::forward_end(const MicroBatch& batch, bool training) {
  const Branch last = branch_before(chunk_.num_layers, batch, training);
  backend_.residual_norm_forward({.normed = final_ln_,
                                  .residual_out = final_residual_,
                                  .mean = final_mean_,
                                  .rstd = final_rstd_,
                                  .residual = last.residual,
                                  .branch = last.output,
                                  .branch_bias = last.bias,
                                  .bias_period = last.bias_period,
                                  .weight = weights_.final_ln_weight,
                                  .bias = weights_.final_ln_bias,
                                  .epsilon = shape_.layernorm_epsilon,
                                  .dropout = last.dropout});
  if (chunk_.has_head) backend_.linear_forward(logits_, final_ln_, weights_.word, Tensor());
}

void Model::loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate,
                 bool gradient, float gradient_scale) {
  const int64_t N = losses_.num_elements();
  const Tensor targets(batch.targets.data(), DType::kInt32, {N});
  const Tensor mask =
      batch.loss_mask ? Tensor(batch.loss_mask.data(), DType::kFloat32, {N}) : Tensor();
  backend_.cross_entropy(losses_, logits_, targets, mask, shape_.num_words(), gradient_scale,
                         gradient);
  backend_.sum(loss, losses_, loss_scale, accumulate);
}

void Model::backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer) {
  backward_end(batch, accumulate);
  for (int64_t i = chunk_.num_layers - 1; i >= 0; --i) {
    backward_layer(i, batch, accumulate);
    if (reducer) reducer->layer(arena_ends_[static_cast<size_t>(i)]);
  }
  if (!chunk_.has_embedding) return;
  // The head and the embedding share their weights. The head's gradient came first (and was
  // assigned on the first micro-batch), the embedding's is added.
  if (!chunk_.has_head && !accumulate) backend_.zero(gradients_.word);
  backend_.embedding_backward(gradients_.word, embedded(dbranch()), batch.tokens,
                              layout_.tp_rank * vocab_rows_);
}

// Turns the gradient of the logits, or that of the chunk's output in dresidual_, into that of the
// last layer's branch and skip connection.
void Model::backward_end(const MicroBatch& batch, bool accumulate) {
  Tensor dfinal_ln;
  if (chunk_.has_head) {
    dfinal_ln =
        rows(Tensor(dnormed_.data(), shape_.dtype, {branch_.num_elements()}), shape_.hidden_size);
    backend_.linear_backward_weight(gradients_.word, Tensor(), logits_, final_ln_, accumulate);
    backend_.linear_backward_input(dfinal_ln, logits_, weights_.word);
    reduce_over_tensor_parallel(dfinal_ln);
  }
  const Branch last = branch_before(chunk_.num_layers, batch, /*training=*/true);
  const bool head = chunk_.has_head;
  backend_.residual_norm_backward({.dresidual = dresidual_,
                                   .dbranch = dbranch_target(),
                                   .dbranch_bias = last.dbias,
                                   .dweight = gradients_.final_ln_weight,
                                   .dbias = gradients_.final_ln_bias,
                                   .dnormed = dfinal_ln,
                                   .dresidual_in = head ? Tensor() : dresidual_,
                                   .residual = head ? final_residual_ : Tensor(),
                                   .mean = final_mean_,
                                   .rstd = final_rstd_,
                                   .weight = weights_.final_ln_weight,
                                   .bias_period = last.bias_period,
                                   .dropout = last.dropout,
                                   .accumulate = accumulate});
}

// Turns the gradient of this layer's output (dresidual_ along the skip connection, dbranch() of the
// branch) into the gradient of its input.
void Model::backward_layer(int64_t i, const MicroBatch& batch, bool accumulate) {
  const LayerActivations& a = layers_[static_cast<size_t>(i)];
  const LayerParameters& w = weights_.layers[static_cast<size_t>(i)];
  const LayerParameters& dw = gradients_.layers[static_cast<size_t>(i)];
  const int64_t N = a.mean1.num_elements(), C = shape_.hidden_size, D = shape_.head_size;
  const int64_t att_columns = heads_ * D;
  const Tensor dln(dnormed_.data(), shape_.dtype, {N, C});

  const Tensor dfc1(dwide_.data(), shape_.dtype, {N, ffn_});
  backend_.linear_backward_weight(dw.fc2_weight, Tensor(), dbranch(), a.fc1, accumulate);
  backend_.linear_gelu_backward_input(dfc1, dbranch(), w.fc2_weight, a.fc1_pre, shape_.gelu);
  backend_.linear_backward_weight(dw.fc1_weight, dw.fc1_bias, dfc1, a.ln2, accumulate);
  backend_.linear_backward_input(dln, dfc1, w.fc1_weight);
  reduce_over_tensor_parallel(dln);
  const Branch attention = attention_branch(i, batch, /*training=*/true);
  backend_.residual_norm_backward({.dresidual = dresidual_,
                                   .dbranch = dbranch_target(),
                                   .dbranch_bias = attention.dbias,
                                   .dweight = dw.ln2_weight,
                                   .dbias = dw.ln2_bias,
                                   .dnormed = dln,
                                   .dresidual_in = dresidual_,
                                   .residual = a.residual_mid,
                                   .mean = a.mean2,
                                   .rstd = a.rstd2,
                                   .weight = w.ln2_weight,
                                   .dropout = attention.dropout,
                                   .accumulate = accumulate});

  const Tensor datt(dnormed_.data(), shape_.dtype, {a.att.shape(0), a.att.shape(1), heads_, D});
  const Tensor dqkv(dwide_.data(), shape_.dtype, {a.att.shape(0), a.att.shape(1), heads_, 3, D});
  backend_.linear_backward_weight(dw.proj_weight, Tensor(), dbranch(), rows(a.att, att_columns),
                                  accumulate);
  backend_.linear_backward_input(rows(datt, att_columns), dbranch(), w.proj_weight);
  backend_.attention_backward({.dqkv = dqkv,
                               .dout = datt,
                               .out = a.att,
                               .lse = a.lse,
                               .kept = a.kept,
                               .qkv = a.qkv,
                               .scale = attention_scale(),
                               .dropout_p = shape_.attention_dropout});
  const Tensor dqkv_rows = rows(dqkv, 3 * att_columns);
  backend_.linear_backward_weight(dw.qkv_weight, dw.qkv_bias, dqkv_rows, a.ln1, accumulate);
  backend_.linear_backward_input(dln, dqkv_rows, w.qkv_weight);
  reduce_over_tensor_parallel(dln);
  const Branch in = branch_before(i, batch, /*training=*/true);
  backend_.residual_norm_backward({.dresidual = dresidual_,
                                   .dbranch = in.output ? dbranch_target() : Tensor(),
                                   .dbranch_bias = in.dbias,
                                   .dweight = dw.ln1_weight,
                                   .dbias = dw.ln1_bias,
                                   .dnormed = dln,
                                   .dresidual_in = dresidual_,
                                   .residual = a.residual,
                                   .mean = a.mean1,
                                   .rstd = a.rstd1,
                                   .weight = w.ln1_weight,
                                   .bias_period = in.bias_period,
                                   .dropout = in.dropout,
                                   .accumulate = accumulate});
}

}  // namespace weft
