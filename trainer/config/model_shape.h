// The sizes of a whole GPT, before any sharding. Legend: B micro-batch, T sequence, C hidden,
// H heads, D head size, F feed-forward, V vocabulary (Vp padded), L layers, S positions.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/backend.h"
#include "trainer/config/fp8_options.h"

namespace weft {

struct Config;

struct ModelShape {
  int64_t num_layers = 0, hidden_size = 0, num_heads = 0, head_size = 0, ffn_size = 0;
  int64_t num_query_groups = 0;  // each has one key and one value; 0: as many as heads
  int64_t seq_length = 0, max_positions = 0;
  int64_t vocab_size = 0, padded_vocab_size = 0;
  // Megatron's behaviour: the padding takes part in the softmax, is trained and is stored.
  bool train_padded_vocabulary = false;
  int64_t micro_batch_size = 0;
  float layernorm_epsilon = 1e-5F, attention_dropout = 0, hidden_dropout = 0;
  // The batch tells where documents begin and end (data/document_bounds.h).
  bool restarts_positions = false;     // positions count from the beginning of their document
  bool masks_other_documents = false;  // tokens attend to those of their own document only
  Activation activation = Activation::kGeluTanh;  // between fc1 and fc2
  Glu glu = Glu::kNone;             // in its place: fc1 then makes gate and up, 2F numbers
  bool has_embedding_norm = false;  // a LayerNorm of the word embedding
  bool has_position_table = true;   // learned positions
  bool has_alibi = false;           // scores sink with the distance (ALiBi)
  int64_t rotary_size = 0;          // elements of a head that rotary positions turn; 0: none
  double rotary_base = 10000;
  double rope_scaling_factor = 0;   // Llama-3.1's, of low frequencies (rotary_frequencies); 0: none
  bool rotary_interleaved = false;  // pairs of neighbours instead of halves
  bool uses_rms_norm = false;       // instead of LayerNorm: no biases of norms, and no means
  bool has_qk_norm = false;         // such a norm of each query and key, before positions
  bool stores_norms_less_one = false;  // the weights of all norms, which begin with 0 then
  bool unties_head = false;  // the head has weights of its own, not those of the word embedding
  bool has_biases = true;    // of proj, fc1 and fc2
  bool has_qkv_bias = true;
  DType dtype = DType::kFloat32;
  bool has_fp32_residual = false;      // the residual stream is fp32 whatever `dtype` is
  std::optional<Fp8Options> fp8 = {};  // the products of layers are fp8's
  double init_method_std = 0.02;
  uint64_t seed = 1234;

  // Returns the type of the residual stream and of the gradients along it.
  DType residual_dtype() const { return has_fp32_residual ? DType::kFloat32 : dtype; }

  // Returns whether attention's backward also makes the gradient of the bias of queries, keys and
  // values. It can where its gradients are those of the product with that bias, unchanged; fp8 sums
  // them where it quantizes them.
  bool attention_sums_qkv_bias() const {
    return has_qkv_bias && rotary_size == 0 && num_groups() == num_heads && !has_qk_norm && !fp8;
  }

  bool needs_document_bounds() const { return restarts_positions || masks_other_documents; }

  // Returns the number of words that the model knows; the other rows of the padded table are zero.
  int64_t num_words() const { return train_padded_vocabulary ? padded_vocab_size : vocab_size; }

  int64_t num_groups() const { return num_query_groups > 0 ? num_query_groups : num_heads; }
  float norm_weight_offset() const { return stores_norms_less_one ? 1.0F : 0.0F; }
  // The numbers that the products for queries, keys and values, and fc1, make of a token.
  int64_t qkv_size() const { return (num_heads + 2 * num_groups()) * head_size; }
  int64_t fc1_size() const { return (glu == Glu::kNone ? 1 : 2) * ffn_size; }

  // Returns the number of parameters of a layer, and of a norm over so many numbers.
  int64_t num_layer_parameters() const;
  int64_t num_norm_parameters(int64_t size) const { return (uses_rms_norm ? 1 : 2) * size; }
  // Returns the number of parameters with the padded vocabulary; a tied head is counted once. For
  // GPT-2 with F = 4C and H*D = C it is L(12C^2 + 13C) + Vp*C + S*C + 2C.
  int64_t num_parameters() const;
};

// Returns the multiplications of a layer's forward for one token.
double layer_multiplications(const ModelShape& shape);

// Returns the FLOPs of forward and backward over `num_tokens` tokens (N). Recomputation is not
// counted, and neither causal masking nor that of other documents is discounted. For F = 4C and H*D
// = C it is 72 N L C^2 (1 + T/(6C) + Vp/(12 L C)) [Megatron-LM megatron/training/training.py].
double model_flops(const ModelShape& shape, double num_tokens);
// Returns the FLOPs of one more forward over `num_layers` layers, which recomputation costs at
// most. With all layers the sum of both is Megatron-DeepSpeed's count, 96 N L C^2 (1 + T/(6C) +
// Vp/(16 L C)).
double recomputed_flops(const ModelShape& shape, double num_tokens, int64_t num_layers);

// Returns the shape of a configuration; `vocab_size` is the tokenizer's.
ModelShape model_shape(const Config& config, int64_t vocab_size);

}  // namespace weft
