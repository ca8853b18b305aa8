// The sizes of a GPT in full, before any sharding. Legend: B micro-batch, T sequence, C hidden, H
// heads, D head size, F feed-forward, V vocabulary (Vp padded), L layers, S positions.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace weft {

struct Config;

struct ModelShape {
  int64_t num_layers = 0, hidden_size = 0, num_heads = 0, head_size = 0, ffn_size = 0;
  int64_t seq_length = 0, max_positions = 0;
  int64_t vocab_size = 0, padded_vocab_size = 0;
  int64_t micro_batch_size = 0;
  float layernorm_epsilon = 1e-5F, attention_dropout = 0, hidden_dropout = 0;
  Gelu gelu = Gelu::kTanh;
  DType dtype = DType::kFloat32;
  double init_method_std = 0.02;
  uint64_t seed = 1234;

  // Parameters of the whole model with the padded vocabulary, the tied head counted once:
  // L(12C^2 + 13C) + Vp*C + S*C + 2C for F = 4C and H*D = C.
  int64_t num_parameters() const;
};

// FLOPs of forward and backward over `num_tokens` tokens, nothing recomputed, causal masking not
// discounted: 72 N L C^2 (1 + T/(6C) + Vp/(12 L C)) for F = 4C and H*D = C [Megatron-LM
// megatron/training/training.py].
double model_flops(const ModelShape& shape, double num_tokens);

// `vocab_size` is the tokenizer's; padding follows the configuration.
ModelShape model_shape(const Config& config, int64_t vocab_size);

}  // namespace weft
