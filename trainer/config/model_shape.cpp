#include "trainer/config/model_shape.h"

#include "trainer/config/config.h"

namespace weft {

int64_t ModelShape::num_layer_parameters() const {
  const int64_t C = hidden_size, F = ffn_size, A = num_heads * head_size;
  const int64_t biases = (has_qkv_bias ? qkv_size() : 0) + (has_biases ? C + fc1_size() + C : 0);
  const int64_t qk_norms = has_qk_norm ? 2 * num_norm_parameters(head_size) : 0;
  return C * (qkv_size() + A + fc1_size() + F) + biases + 2 * num_norm_parameters(C) + qk_norms;
}

int64_t ModelShape::num_parameters() const {
  const int64_t num_word_tables = unties_head ? 2 : 1;
  const int64_t num_rows =
      num_word_tables * padded_vocab_size + (has_position_table ? max_positions : 0);
  const int64_t embedding_norm = has_embedding_norm ? 2 * hidden_size : 0;
  return num_layers * num_layer_parameters() + num_rows * hidden_size + embedding_norm +
         num_norm_parameters(hidden_size);
}

// The products are those with the weights of a layer, and the scores and their use (2 T A).
double layer_multiplications(const ModelShape& shape) {
  const auto A = static_cast<double>(shape.num_heads * shape.head_size);
  const auto outputs = static_cast<double>(shape.qkv_size() + shape.fc1_size() + shape.ffn_size);
  return static_cast<double>(shape.hidden_size) * (outputs + A) +
         2 * static_cast<double>(shape.seq_length) * A;
}

// A multiplication counts two FLOPs per token, three times: once in forward and twice in backward.
// The products are those of the layers and of the head.
double model_flops(const ModelShape& shape, double num_tokens) {
  const auto L = static_cast<double>(shape.num_layers);
  const auto head = static_cast<double>(shape.padded_vocab_size * shape.hidden_size);
  return 6 * num_tokens * (L * layer_multiplications(shape) + head);
}

double recomputed_flops(const ModelShape& shape, double num_tokens, int64_t num_layers) {
  return 2 * num_tokens * static_cast<double>(num_layers) * layer_multiplications(shape);
}

ModelShape model_shape(const Config& config, int64_t vocab_size) {
  ModelShape shape;
  shape.num_layers = config.num_layers;
  shape.hidden_size = config.hidden_size;
  shape.num_heads = config.num_attention_heads;
  shape.head_size = config.head_size();
  shape.ffn_size = config.ffn_size();
  shape.seq_length = config.seq_length;
  shape.max_positions = config.positions();
  shape.vocab_size = vocab_size;
  shape.padded_vocab_size = config.padded_vocab_size(vocab_size);
  shape.train_padded_vocabulary = config.train_padded_vocabulary;
  shape.micro_batch_size = config.micro_batch_size;
  shape.layernorm_epsilon = config.layernorm_epsilon;
  shape.attention_dropout = config.attention_dropout;
  shape.hidden_dropout = config.hidden_dropout;
  shape.restarts_positions = config.restarts_positions();
  shape.masks_other_documents = config.masks_other_documents();
  shape.fp8 = config.fp8();
  shape.num_query_groups = config.group_query_attention ? config.num_query_groups : 0;
  shape.activation = config.activation();
  shape.glu = config.glu();
  shape.has_embedding_norm = config.embed_layernorm;
  shape.has_position_table = config.has_position_table();
  shape.has_alibi = config.has_alibi();
  shape.rotary_size = config.rotary_size();
  shape.rotary_base = config.rotary_base;
  shape.rope_scaling_factor = config.use_rope_scaling ? config.rope_scaling_factor : 0;
  shape.rotary_interleaved = config.rotary_interleaved;
  shape.uses_rms_norm = config.uses_rms_norm();
  shape.has_qk_norm = config.qk_layernorm;
  shape.stores_norms_less_one = config.apply_layernorm_1p;
  shape.unties_head = config.untie_embeddings_and_output_weights;
  shape.has_biases = !config.disable_bias_linear;
  shape.has_qkv_bias = config.has_qkv_bias();
  shape.dtype = config.dtype();
  shape.has_fp32_residual = config.fp32_residual_connection;
  shape.init_method_std = config.init_method_std;
  shape.seed = static_cast<uint64_t>(config.seed);
  return shape;
}

}  // namespace weft
