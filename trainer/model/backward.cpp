// Backward of one micro-batch.
#include "trainer/model/model.h"

namespace weft {

void Model::backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer) {
  select(batch);
  backward_end(batch, accumulate);
  int64_t begin = chunk().num_layers;  // of the layers whose activations are there
  for (int64_t i = chunk().num_layers - 1; i >= 0; --i) {
    if (i < begin) {
      begin = recompute_.group_begin(i);
      if (recompute_.recomputes_layer(i)) recompute_layers(begin, i + 1, batch);
    }
    {
      const auto scope = layer_scope(batch, "backward", chunk().first_layer + i);
      backward_layer(i, batch, accumulate);
    }
    if (reducer) reducer->layer(part().arena_ends[static_cast<size_t>(i)]);
  }
  if (chunk().has_embedding) backward_embedding(batch, accumulate);
}

void Model::backward_embedding(const MicroBatch& batch, bool accumulate) {
  Tensor dwords = dbranch();
  if (shape_.has_embedding_norm) {
    const EmbeddingActivations& a = embeddings_[embedding_slot_];
    dwords = branch_output();
    backend_.run(ResidualNormBackward{.dresidual = dwords,
                                      .dweight = gradients().embedding_ln_weight,
                                      .dbias = gradients().embedding_ln_bias,
                                      .dnormed = dbranch(),
                                      .residual = a.words,
                                      .mean = a.mean,
                                      .rstd = a.rstd,
                                      .weight = weights().embedding_ln_weight,
                                      .accumulate = accumulate});
  }
  // Where the head and the embedding share their weights, the head's gradient came first (and was
  // assigned on the first micro-batch), and the embedding's is added.
  const bool has_gradient_of_head = chunk().has_head && !shape_.unties_head;
  if (!has_gradient_of_head && !accumulate) backend_.run(Zero{.out = gradients().word});
  backend_.run(EmbeddingBackward{.dword = gradients().word,
                                 .dout = embedded(gather_rows(dwords)),
                                 .tokens = batch.tokens,
                                 .first_word = first_word()});
}

Tensor Model::gradient_of_final_ln() const {
  return {dnormed_.data(), shape_.dtype, {num_rows_, shape_.hidden_size}};
}

void Model::backward_head_input(Tokens tokens) {
  backend_.run(LinearBackwardInput{.dinp = slice(partials_of(gradient_of_final_ln()), tokens),
                                   .dout = logits_of(tokens),
                                   .weight = weights().head});
}

void Model::backward_head_weight(Tokens tokens, bool accumulate) {
  backend_.run(LinearBackwardWeight{.dweight = gradients().head,
                                    .dout = logits_of(tokens),
                                    .inp = slice(rows_gathered_last(final_ln_), tokens),
                                    .accumulate = accumulate});
}

// Turns the gradient of the logits, or that of the chunk's output, into that of the last layer's
// branch and skip connection.
void Model::backward_end(const MicroBatch& batch, bool accumulate) {
  Tensor dfinal_ln;
  if (chunk().has_head) {
    dfinal_ln = gradient_of_final_ln();
    const Tokens last = last_chunk();
    backward_head_input(last);
    start_summing_partials(dfinal_ln);
    backward_head_weight(last, accumulate || last.first > 0);
    wait_for_sums();
  }
  const Branch last = branch_before(chunk().num_layers, batch, /*training=*/true);
  const bool head = chunk().has_head;
  const Tensor normalised = last.output ? final_residual_ : last.residual;
  backend_.run(
      ResidualNormBackward{.dresidual = dresidual_,
                           .dbranch = last.output ? dbranch_ : Tensor(),
                           .dbranch_bias = last.dbias,
                           .dweight = gradients().final_ln_weight,
                           .dbias = gradients().final_ln_bias,
                           .dnormed = dfinal_ln,
                           .dresidual_in = head ? Tensor() : output_gradient(batch.gradient_slot),
                           .residual = head ? normalised : Tensor(),
                           .mean = head ? final_mean_ : Tensor(),
                           .rstd = head ? final_rstd_ : Tensor(),
                           .weight = weights().final_ln_weight,
                           .bias_period = last.bias_period,
                           .first_row = last.first_row,
                           .document_bounds = last.document_bounds,
                           .dropout = last.dropout,
                           .accumulate = accumulate});
}

// Turns the gradient of this layer's output (dresidual_ along the skip connection, dbranch() of the
// branch) into the gradient of its input.
void Model::backward_layer(int64_t i, const MicroBatch& batch, bool accumulate) {
  const LayerActivations a = layer(i);
  const LayerParameters& w = weights().layers[static_cast<size_t>(i)];
  const LayerParameters& dw = gradients().layers[static_cast<size_t>(i)];
  const int64_t N = a.fc1_pre.shape(0), D = shape_.head_size, att_columns = heads_ * D;
  const Tensor dln(dnormed_.data(), shape_.dtype, {num_rows_, shape_.hidden_size});

  const LayerLinears::Place qkv = place(i, LayerLinears::kQkv, Pass::kBackward),
                            proj = place(i, LayerLinears::kProj, Pass::kBackward),
                            fc1 = place(i, LayerLinears::kFc1, Pass::kBackward),
                            fc2 = place(i, LayerLinears::kFc2, Pass::kBackward);

  recompute_norm(a.ln2, a.residual_mid, a.mean2, a.rstd2, w.ln2_weight, w.ln2_bias);
  recompute_mlp(i);
  const Tensor dfc1(dwide_.data(), shape_.dtype, {N, fc1_size_});
  const Tensor dmlp = gather_rows(dbranch());
  linears_.begin_backward(fc2, {.dout = dmlp});
  linears_.backward_weight(fc2, dw.fc2_weight, Tensor(), dmlp, mlp_input(a), accumulate);
  Tensor fc1_dbias =
      dw.fc1_bias;  // It is left to the product for fc1's weight unless GELU's backward sums it.
  if (shape_.glu == Glu::kNone) {
    if (linears_.gelu_backward_input(fc2, dfc1, dw.fc1_bias, dmlp, w.fc2_weight, a.fc1_pre,
                                     shape_.gelu, accumulate))
      fc1_dbias = Tensor();
  } else {
    linears_.backward_input(fc2, dglu_, dmlp, w.fc2_weight);
    backend_.run(GluBackward{.dpre = dfc1, .dout = dglu_, .pre = a.fc1_pre, .glu = shape_.glu});
  }
  start_gathering_rows(a.ln2);
  linears_.begin_backward(fc1, {.dout = dfc1,
                                .pre = shape_.glu == Glu::kNone ? a.fc1_pre : Tensor(),
                                .gelu = shape_.gelu,
                                .dbias = dw.fc1_bias,
                                .accumulate = accumulate});
  linears_.backward_input(fc1, partials_of(dln), dfc1, w.fc1_weight);
  start_summing_partials(dln);
  linears_.backward_weight(fc1, dw.fc1_weight, fc1_dbias, dfc1, {.rows = gathered_rows(a.ln2)},
                           accumulate);
  wait_for_sums();
  const Branch attention = attention_branch(i, batch, /*training=*/true);
  backend_.run(ResidualNormBackward{.dresidual = dresidual_,
                                    .dbranch = dbranch_,
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

  recompute_norm(a.ln1, a.residual, a.mean1, a.rstd1, w.ln1_weight, w.ln1_bias);
  const Tensor datt(dnormed_.data(), shape_.dtype, {a.att.shape(0), a.att.shape(1), heads_, D});
  const Tensor dqkv(dwide_.data(), shape_.dtype,
                    {a.att.shape(0), a.att.shape(1), groups_, heads_ / groups_ + 2, D});
  const Tensor dproj = gather_rows(dbranch());
  linears_.begin_backward(proj, {.dout = dproj});
  linears_.backward_weight(proj, dw.proj_weight, Tensor(), dproj,
                           {.rows = rows(a.att, att_columns)}, accumulate);
  linears_.backward_input(proj, rows(datt, att_columns), dproj, w.proj_weight);
  start_gathering_rows(a.ln1);
  const bool shares_keys = groups_ < heads_;
  const bool attention_sums = shape_.attention_sums_qkv_bias();
  backend_.run(AttentionBackward{.dqkv = shares_keys ? dexpanded_ : dqkv,
                                 .dout = datt,
                                 .out = a.att,
                                 .lse = a.lse,
                                 .kept = a.kept,
                                 .qkv = expanded(a.qkv),
                                 .document_bounds = attention_documents(batch),
                                 .slopes = slopes_,
                                 .scale = attention_scale(),
                                 .dropout_p = shape_.attention_dropout,
                                 .dqkv_bias = attention_sums ? dw.qkv_bias : Tensor(),
                                 .accumulate = accumulate});
  if (shares_keys) backend_.run(SumGroups{.grouped = dqkv, .expanded = dexpanded_});
  rotate(dqkv, batch, /*inverse=*/true);
  const Tensor dqkv_rows = rows(dqkv, qkv_size_);
  linears_.begin_backward(qkv, {.dout = dqkv_rows, .dbias = dw.qkv_bias, .accumulate = accumulate});
  linears_.backward_input(qkv, partials_of(dln), dqkv_rows, w.qkv_weight);
  start_summing_partials(dln);
  linears_.backward_weight(qkv, dw.qkv_weight, attention_sums ? Tensor() : dw.qkv_bias, dqkv_rows,
                           {.rows = gathered_rows(a.ln1)}, accumulate);
  wait_for_sums();
  const Branch in = branch_before(i, batch, /*training=*/true);
  backend_.run(ResidualNormBackward{.dresidual = dresidual_,
                                    .dbranch = in.output ? dbranch_ : Tensor(),
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
                                    .first_row = in.first_row,
                                    .document_bounds = in.document_bounds,
                                    .dropout = in.dropout,
                                    .accumulate = accumulate});
}

}  // namespace weft
