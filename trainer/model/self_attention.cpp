#include "trainer/model/self_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace weft {

std::vector<float> alibi_slopes(int64_t num_heads) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  std::vector<float> slopes;
  for (int64_t head = 0; head < num_heads; ++head) {
    // Among `below` heads, or among twice as many.
    const int64_t number = head < below ? 2 * (head + 1) : 2 * (head - below) + 1;
    const double exponent = -8.0 * static_cast<double>(number) / static_cast<double>(2 * below);
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
  return slopes;
}

// They are rounded to fp32, as those that Megatron and Hugging Face multiply positions by.
std::vector<float> rotary_frequencies(const ModelShape& shape) {
  // The numbers of all models of Llama 3.1 to 3.3, which Megatron has no options for.
  constexpr double kOriginalPositions = 8192, kLowFactor = 1, kHighFactor = 4;
  const int64_t num_pairs = shape.rotary_size / 2;
  std::vector<float> frequencies;
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    const double exponent = static_cast<double>(pair) / static_cast<double>(num_pairs);
    double frequency = std::pow(shape.rotary_base, -exponent);
    if (shape.rope_scaling_factor > 0) {
      const double turns = kOriginalPositions * frequency / (2 * std::numbers::pi);
      const double kept = std::clamp((turns - kLowFactor) / (kHighFactor - kLowFactor), 0.0, 1.0);
      frequency *= kept + (1 - kept) / shape.rope_scaling_factor;
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

void SelfAttention::for_each_buffer(const AddBuffer& add) {
  const ModelShape& m = shape_.model;
  const auto scratch = MemoryClass::kScratch;
  if (m.has_alibi) add(scratch, "ALiBi slopes", &slopes_, DType::kFloat32, {shape_.num_heads()});
  if (m.rotary_size > 0)
    add(scratch, "rotary angles", &angles_, DType::kFloat32,
        {std::max(longest_sequence_, num_kept_keys_), 2, m.rotary_size / 2});
  for (size_t layer = 0; layer < kept_.size(); ++layer) {
    const std::string of_layer = "layer " + std::to_string(layer) + " kept ";
    for (const auto& [name, tensor] :
         {std::pair{"keys", &kept_[layer].keys}, std::pair{"values", &kept_[layer].values}}) {
      add(MemoryClass::kActivations, of_layer + name, tensor, m.dtype,
          {m.micro_batch_size, num_kept_keys_, shape_.num_groups(), m.head_size});
    }
  }
}

void SelfAttention::fill_tables() {
  fill_angles();
  fill_slopes();
}

// Angles and their cosines and sines are fp64 until they are stored.
void SelfAttention::fill_angles() {
  if (angles_.empty()) return;
  const int64_t num_positions = angles_.shape(0), num_pairs = angles_.shape(2);
  std::vector<float> values(static_cast<size_t>(angles_.num_elements()));
  const std::vector<float> frequencies = rotary_frequencies(shape_.model);
  for (int64_t pair = 0; pair < num_pairs; ++pair) {
    const auto frequency = static_cast<double>(frequencies[static_cast<size_t>(pair)]);
    for (int64_t position = 0; position < num_positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      const auto at = static_cast<size_t>(position * 2 * num_pairs + pair);
      values[at] = static_cast<float>(std::cos(angle));
      values[at + static_cast<size_t>(num_pairs)] = static_cast<float>(std::sin(angle));
    }
  }
  backend_.copy(angles_.data(), values.data(), angles_.num_bytes(), Stream::kCompute);
}

void SelfAttention::fill_slopes() {
  if (slopes_.empty()) return;
  const std::vector<float> slopes = alibi_slopes(shape_.model.num_heads);
  backend_.copy(slopes_.data(), slopes.data() + shape_.layout.tp_rank * shape_.num_heads(),
                slopes_.num_bytes(), Stream::kCompute);
}

void SelfAttention::forward(const Layer& layer, const LinearLayers::Input& input) {
  const LayerActivations& a = layer.activations;
  const LayerParameters& w = layer.weights;
  const ModelShape& m = shape_.model;
  linears_.forward(layer.qkv, as_rows(a.qkv, shape_.qkv_size()), input, w.qkv_weight, w.qkv_bias);
  normalise(layer);
  rotate(a.qkv, layer.batch, /*inverse=*/false);
  Dropout dropout;
  if (layer.is_training) {
    const int64_t per_sample = m.num_heads * 32 * attention_mask_words(m.seq_length);
    dropout = {m.attention_dropout, m.seed,
               dropout_stream(layer.batch, layer.number, DropoutSite::kAttention),
               static_cast<uint64_t>(layer.batch.first_sample * per_sample)};
  }
  backend_.run(AttentionForward{.out = a.att,
                                .lse = a.lse,
                                .dropout_mask = a.dropout_mask,
                                .qkv = keeps_keys() ? with_kept_keys(layer) : Qkv(a.qkv),
                                .first_query = layer.batch.first_token,
                                .offset = layer.batch.offset,
                                .document_bounds = documents(layer.batch),
                                .slopes = slopes_,
                                .scale = scale(),
                                .heads = {shape_.layout.tp_rank * shape_.num_heads(), m.num_heads},
                                .dropout = dropout});
  linears_.forward(layer.proj, stream_.partials_of(stream_.branch()),
                   {.rows = as_rows(a.att, shape_.attention_size())}, w.proj_weight, Tensor());
  stream_.sum_partials(stream_.branch());
}

Qkv SelfAttention::with_kept_keys(const Layer& layer) {
  const KeptKeys& kept = kept_[static_cast<size_t>(layer.qkv.layer)];
  backend_.run(KeepKeys{.keys = kept.keys,
                        .values = kept.values,
                        .qkv = layer.activations.qkv,
                        .first_position = layer.batch.first_token,
                        .offset = layer.batch.offset});
  Qkv qkv = layer.activations.qkv;
  qkv.k = head_vectors(kept.keys);
  qkv.v = head_vectors(kept.values);
  return qkv;
}

void SelfAttention::backward(const Layer& layer, bool accumulate) {
  const LayerActivations& a = layer.activations;
  const LayerParameters &w = layer.weights, &dw = layer.gradients;
  const int64_t att_columns = shape_.attention_size();
  const Tensor dbranch = stream_.gather_rows(stream_.dbranch());
  linears_.begin_backward(layer.proj, {.dout = dbranch});
  linears_.backward_weight(layer.proj, dw.proj_weight, Tensor(), dbranch,
                           {.rows = as_rows(a.att, att_columns)}, accumulate);
  const Tensor datt = stream_.dattention();
  linears_.backward_input(layer.proj, as_rows(datt, att_columns), dbranch, w.proj_weight);
  stream_.start_gathering_rows(a.ln1);

  const bool attention_sums = shape_.model.attention_sums_qkv_bias();
  backend_.run(AttentionBackward{.dqkv = a.dqkv,
                                 .dout = datt,
                                 .out = a.att,
                                 .lse = a.lse,
                                 .dropout_mask = a.dropout_mask,
                                 .qkv = a.qkv,
                                 .document_bounds = documents(layer.batch),
                                 .slopes = slopes_,
                                 .scale = scale(),
                                 .dropout_p = shape_.model.attention_dropout,
                                 .dqkv_bias = attention_sums ? dw.qkv_bias : Tensor(),
                                 .accumulate = accumulate});
  rotate(a.dqkv, layer.batch, /*inverse=*/true);
  normalise_backward(layer, accumulate);

  const Tensor dqkv = as_rows(a.dqkv, shape_.qkv_size());
  linears_.begin_backward(layer.qkv,
                          {.dout = dqkv, .dbias = dw.qkv_bias, .accumulate = accumulate});
  linears_.backward_input(layer.qkv, stream_.partials_of(stream_.dnormed()), dqkv, w.qkv_weight);
  stream_.start_summing_partials(stream_.dnormed());
  linears_.backward_weight(layer.qkv, dw.qkv_weight, attention_sums ? Tensor() : dw.qkv_bias, dqkv,
                           {.rows = stream_.gathered_rows(a.ln1)}, accumulate);
  stream_.wait_for_sums();
}

void SelfAttention::normalise(const Layer& layer) {
  const ModelShape& m = shape_.model;
  if (!m.has_qk_norm) return;
  backend_.run(QkNormForward{.qkv = layer.activations.qkv,
                             .kept = layer.is_training ? layer.activations.qk : Tensor(),
                             .weights = layer.weights.qk_norm,
                             .weight_offset = m.norm_weight_offset(),
                             .epsilon = m.layernorm_epsilon});
}

void SelfAttention::normalise_backward(const Layer& layer, bool accumulate) {
  const ModelShape& m = shape_.model;
  if (!m.has_qk_norm) return;
  backend_.run(QkNormBackward{.dqkv = layer.activations.dqkv,
                              .kept = layer.activations.qk,
                              .gradients = layer.gradients.qk_norm,
                              .weights = layer.weights.qk_norm,
                              .weight_offset = m.norm_weight_offset(),
                              .epsilon = m.layernorm_epsilon,
                              .accumulate = accumulate});
}

void SelfAttention::rotate(Tensor qkv, const MicroBatch& batch, bool inverse) {
  const ModelShape& m = shape_.model;
  if (m.rotary_size == 0) return;
  backend_.run(Rotary{.qkv = qkv,
                      .angles = angles_,
                      .first_position = batch.first_token,
                      .offset = batch.offset,
                      .document_bounds = m.restarts_positions ? batch.document_bounds : Tensor(),
                      .interleaved = m.rotary_interleaved,
                      .inverse = inverse});
}

float SelfAttention::scale() const {
  return 1.0F / std::sqrt(static_cast<float>(shape_.model.head_size));
}

}  // namespace weft
