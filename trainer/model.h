// The GPT model as Megatron builds it: explicit forward and backward over one micro-batch, for any sharded size.
// [Radford et al. 2019; Brown et al. 2020; Megatron-LM megatron/core/models/gpt]
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/communicator.h"

namespace weft {

// Sizes in full, before sharding; filled from Config and the tokenizer's vocabulary.
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
  int64_t num_parameters() const;  // of the whole model, padded vocabulary, tied head counted once
};

// One parameter of this rank: a slice of a global tensor. Names are Megatron's ("embedding.word_embeddings.weight",
// "decoder.layers.0.self_attention.linear_qkv.weight", ...), with global layer numbers.
struct Parameter {
  std::string name;
  std::vector<int64_t> global_shape;
  int split_dim = -1;                    // dimension that is sharded over tp, -1: replicated
  int64_t begin = 0, end = 0;            // this rank's range of split_dim
  std::vector<int64_t> shape;            // of the slice
  int64_t arena_offset = 0;              // first element in the flat arenas, a multiple of kOptimizerBlock
  int64_t num_elements = 0;
  bool decays = false;                   // weight decay: matrices, embeddings included; never 1-D
  double init_std = 0;                   // 0 with init_value: constant
  float init_value = 0;
};

// What a checkpoint stores of one tensor and where it lies on the device.
struct StateTensor {
  std::string name;                      // "model/NAME", "optimizer/master/NAME", "optimizer/exp_avg/NAME", "optimizer/exp_avg_sq/NAME"
  std::vector<int64_t> global_shape;
  int split_dim = -1;
  int64_t begin = 0, end = 0;
  Tensor tensor;                         // device memory, the slice's shape flattened
};

}  // namespace weft
