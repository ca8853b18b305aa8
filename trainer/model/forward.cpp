// Forward of one micro-batch, and its loss.
#include <algorithm>

#include "indexed_dataset/base/process/crash_point.h"
#include "trainer/model/model.h"

namespace weft {

void Model::forward(const MicroBatch& batch, bool training, ParameterGatherer* gatherer) {
  select(batch);
  // Each layer waits for its own parameters while those of the next one are gathered.
  const std::vector<int64_t>&begins = part().arena_begins, &ends = part().arena_ends;
  const auto wait_for_parameters = [&](int64_t arena_first, int64_t next_layer) {
    if (gatherer) gatherer->wait_from(arena_first, begins[static_cast<size_t>(next_layer)]);
  };
  wait_for_parameters(ends.empty() ? begins.front() : ends.front(), 0);
  if (chunk().has_embedding) forward_embedding(batch);
  for (int64_t i = 0; i < chunk().num_layers; ++i) {
    wait_for_parameters(begins[static_cast<size_t>(i)], i + 1);
    const auto scope = layer_scope(batch, "forward", chunk().first_layer + i);
    crash_point("layer_forward");
    forward_layer(i, branch_before(i, batch, training), batch,
                  training ? Pass::kForward : Pass::kEvaluation);
  }
  forward_end(batch, training);
}

void Model::forward_embedding(const MicroBatch& batch) {
  const EmbeddingActivations& a = embeddings_[embedding_slot_];
  const Tensor words = shape_.has_embedding_norm ? a.words : branch_output();
  backend_.run(EmbeddingForward{.out = embedded(partials_of(words)),
                                .tokens = batch.tokens,
                                .word = weights().word,
                                .first_word = first_word()});
  sum_partials(words);
  if (!shape_.has_embedding_norm) return;
  backend_.run(ResidualNormForward{.normed = branch_output(),
                                   .mean = a.mean,
                                   .rstd = a.rstd,
                                   .residual = words,
                                   .weight = weights().embedding_ln_weight,
                                   .bias = weights().embedding_ln_bias,
                                   .epsilon = shape_.layernorm_epsilon});
}

void Model::forward_layer(int64_t i, const Branch& in, const MicroBatch& batch, Pass pass,
                          bool computes_branch) {
  const bool training = pass != Pass::kEvaluation;
  const LayerActivations a = layer(i);
  const LayerParameters& w = weights().layers[static_cast<size_t>(i)];
  const int64_t att_columns = heads_ * shape_.head_size;

  const LayerLinears::Place qkv = place(i, LayerLinears::kQkv, pass),
                            fc1 = place(i, LayerLinears::kFc1, pass);
  const NormOutput ln1 = norm_output(qkv, a.ln1);
  backend_.run(ResidualNormForward{.normed = ln1.normed,
                                   .normed_fp8 = ln1.fp8,
                                   .residual_out = in.output ? a.residual : Tensor(),
                                   .mean = a.mean1,
                                   .rstd = a.rstd1,
                                   .residual = in.residual,
                                   .branch = in.output,
                                   .branch_bias = in.bias,
                                   .bias_period = in.bias_period,
                                   .first_row = in.first_row,
                                   .document_bounds = in.document_bounds,
                                   .weight = w.ln1_weight,
                                   .bias = w.ln1_bias,
                                   .epsilon = shape_.layernorm_epsilon,
                                   .dropout = in.dropout});
  linears_.forward(qkv, rows(a.qkv, qkv_size_), input_of(ln1), w.qkv_weight, w.qkv_bias);
  rotate(a.qkv, batch, /*inverse=*/false);
  backend_.run(AttentionForward{
      .out = a.att,
      .lse = a.lse,
      .kept = a.kept,
      .qkv = expanded(a.qkv),
      .document_bounds = attention_documents(batch),
      .slopes = slopes_,
      .scale = attention_scale(),
      .heads = own_heads(),
      .dropout = training ? attention_dropout(batch, chunk().first_layer + i) : Dropout{}});
  linears_.forward(place(i, LayerLinears::kProj, pass), partials_of(branch_output()),
                   {.rows = rows(a.att, att_columns)}, w.proj_weight, Tensor());
  sum_partials(branch_output());

  const Branch attention = attention_branch(i, batch, training);
  const NormOutput ln2 = norm_output(fc1, a.ln2);
  backend_.run(ResidualNormForward{.normed = ln2.normed,
                                   .normed_fp8 = ln2.fp8,
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
  compute_fc1(i, pass, input_of(ln2));
  const LayerLinears::Place fc2 = place(i, LayerLinears::kFc2, pass);
  if (!computes_branch) return linears_.keep_input(fc2, mlp_input(a));
  linears_.forward(fc2, partials_of(branch_output()), mlp_input(a), w.fc2_weight, Tensor());
  sum_partials(branch_output());
}

// Ranks that share rows gather a norm's output before it is quantized.
Model::NormOutput Model::norm_output(const LayerLinears::Place& place, Tensor normed) const {
  if (shares_rows()) return {.normed = normed};
  const Fp8Output fp8 = linears_.fp8_input(place, num_rows_);
  return {.normed = fp8.rows && linears_.keeps_input(place.name) ? Tensor() : normed, .fp8 = fp8};
}

LayerLinears::Input Model::input_of(const NormOutput& norm) {
  if (norm.fp8.rows) return {.fp8 = norm.fp8.rows};
  return {.rows = gather_rows(norm.normed)};
}

// Without a place for it GELU's output is made where products read it.
void Model::compute_fc1(int64_t i, Pass pass, const LayerLinears::Input& input) {
  const LayerActivations a = layer(i);
  const LayerParameters& w = weights().layers[static_cast<size_t>(i)];
  const LayerLinears::Place fc1 = place(i, LayerLinears::kFc1, pass);
  if (shape_.glu == Glu::kNone) {
    linears_.gelu_forward(fc1, a.fc1, a.fc1_pre, input, w.fc1_weight, w.fc1_bias, shape_.gelu);
  } else {
    linears_.forward(fc1, a.fc1_pre, input, w.fc1_weight, w.fc1_bias);
    activate(a);
  }
}

void Model::activate(const LayerActivations& a) {
  if (!a.fc1) return;
  if (shape_.glu == Glu::kNone) {
    backend_.run(GeluForward{.out = a.fc1, .pre = a.fc1_pre, .gelu = shape_.gelu});
  } else {
    backend_.run(GluForward{.out = a.fc1, .pre = a.fc1_pre, .glu = shape_.glu});
  }
}

// The first layer normalises its input as it was stored, which gives the bits of forward, where the
// same operation stored it. The last product of the group is not needed again.
void Model::recompute_layers(int64_t begin, int64_t end, const MicroBatch& batch) {
  for (int64_t i = begin; i < end; ++i) {
    Branch in;
    if (i == begin) {
      in.residual = layer(i).residual;
    } else {
      in = branch_before(i, batch, /*training=*/true);
    }
    forward_layer(i, in, batch, Pass::kBackward, /*computes_branch=*/i + 1 < end);
  }
}

void Model::recompute_norm(Tensor normed, Tensor residual, Tensor mean, Tensor rstd, Tensor weight,
                           Tensor bias) {
  if (!recompute_.norms) return;
  backend_.run(ResidualNormForward{.normed = normed,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .residual = residual,
                                   .weight = weight,
                                   .bias = bias,
                                   .epsilon = shape_.layernorm_epsilon});
}

void Model::recompute_mlp(int64_t i) {
  if (recompute_.mlp) {
    compute_fc1(i, Pass::kBackward, {.rows = gather_rows(layer(i).ln2)});
  } else if (recompute_.recomputes_activation()) {
    activate(layer(i));
  }
}

// Adds the last layer's branch; with the head, computes the logits.
void Model::forward_end(const MicroBatch& batch, bool training) {
  const Branch last = branch_before(chunk().num_layers, batch, training);
  const bool head = chunk().has_head;
  backend_.run(ResidualNormForward{.normed = head ? final_ln_ : Tensor(),
                                   .residual_out = last.output ? final_residual_ : Tensor(),
                                   .mean = head ? final_mean_ : Tensor(),
                                   .rstd = head ? final_rstd_ : Tensor(),
                                   .residual = last.residual,
                                   .branch = last.output,
                                   .branch_bias = last.bias,
                                   .bias_period = last.bias_period,
                                   .first_row = last.first_row,
                                   .document_bounds = last.document_bounds,
                                   .weight = weights().final_ln_weight,
                                   .bias = weights().final_ln_bias,
                                   .epsilon = shape_.layernorm_epsilon,
                                   .dropout = last.dropout});
  if (!head) return;
  gather_rows(final_ln_);
  forward_head(chunk_at(0));
}

Model::Tokens Model::chunk_at(int64_t first) const {
  const int64_t left = shape_.micro_batch_size * shape_.seq_length - first;
  return {first, logits_chunk_ > 0 ? std::min(left, logits_chunk_) : left};
}

Model::Tokens Model::last_chunk() const {
  const int64_t N = shape_.micro_batch_size * shape_.seq_length;
  return chunk_at(logits_chunk_ > 0 ? (N - 1) / logits_chunk_ * logits_chunk_ : 0);
}

Tensor Model::slice(Tensor rows, Tokens tokens) {
  const int64_t columns = rows.num_elements() / rows.shape(0);
  char* data = rows.as<char>() + tokens.first * columns * size_bytes(rows.dtype());
  return {data, rows.dtype(), {tokens.count, columns}};
}

void Model::forward_head(Tokens tokens) {
  backend_.run(LinearForward{.out = logits_of(tokens),
                             .inp = slice(rows_gathered_last(final_ln_), tokens),
                             .weight = weights().head});
}

void Model::loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate,
                 bool gradient, float gradient_scale) {
  const int64_t last = last_chunk().first;
  for (Tokens tokens = chunk_at(0); tokens.count > 0;
       tokens = chunk_at(tokens.first + tokens.count)) {
    if (tokens.first > 0) forward_head(tokens);
    cross_entropy(tokens, batch, gradient, gradient_scale);
    if (!gradient || tokens.first == last) continue;
    backward_head_input(tokens);
    backward_head_weight(tokens, accumulate || tokens.first > 0);
  }
  backend_.run(Sum{.out = loss, .inp = losses_, .scale = loss_scale, .accumulate = accumulate});
}

void Model::cross_entropy(Tokens tokens, const MicroBatch& batch, bool gradient,
                          float gradient_scale) {
  const int64_t n = tokens.count;
  const Tensor losses(losses_.as<float>() + tokens.first, DType::kFloat32, {n});
  const Tensor targets(batch.targets.as<int32_t>() + tokens.first, DType::kInt32, {n});
  const Tensor mask = batch.loss_mask
                          ? Tensor(batch.loss_mask.as<float>() + tokens.first, DType::kFloat32, {n})
                          : Tensor();
  const Tensor logits = logits_of(tokens);
  if (layout_.tp_size == 1) {
    backend_.run(CrossEntropy{.losses = losses,
                              .logits = logits,
                              .targets = targets,
                              .loss_mask = mask,
                              .vocabulary_size = shape_.num_words(),
                              .gradient_scale = gradient_scale,
                              .writes_gradient = gradient});
    return;
  }
  const Tensor all(statistics_.data(), DType::kFloat32, {layout_.tp_size, n, 3});
  const Tensor own(statistics_.as<float>() + layout_.tp_rank * n * 3, DType::kFloat32, {n, 3});
  backend_.run(CrossEntropyStatistics{.statistics = own,
                                      .logits = logits,
                                      .targets = targets,
                                      .first_word = first_word(),
                                      .vocabulary_size = shape_.num_words()});
  tensor_parallel_.all_gather(all, own, Stream::kCompute);
  backend_.run(CrossEntropyGradient{.losses = losses,
                                    .logits = logits,
                                    .statistics = all,
                                    .targets = targets,
                                    .loss_mask = mask,
                                    .first_word = first_word(),
                                    .vocabulary_size = shape_.num_words(),
                                    .gradient_scale = gradient_scale,
                                    .writes_gradient = gradient});
}

void Model::sample_losses(Tensor out, const MicroBatch& batch) {
  const Tensor losses(losses_.data(), DType::kFloat32,
                      {shape_.micro_batch_size, shape_.seq_length});
  backend_.run(SampleLosses{.out = out, .losses = losses, .loss_mask = batch.loss_mask});
}

}  // namespace weft
