#include "trainer/model_shape.h"

#include "trainer/config.h"

namespace weft {

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
  shape.micro_batch_size = config.micro_batch_size;
  shape.layernorm_epsilon = config.layernorm_epsilon;
  shape.attention_dropout = config.attention_dropout;
  shape.hidden_dropout = config.hidden_dropout;
  shape.gelu = config.gelu();
  shape.dtype = config.dtype();
  shape.init_method_std = config.init_method_std;
  shape.seed = static_cast<uint64_t>(config.seed);
  return shape;
}

}  // namespace weft
