// A model with initial weights, as if it had been stored, in all the shapes that the trainer
// trains.
#pragma once

#include <string>
#include <vector>

#include "tests/trainer/model_fixture.h"
#include "trainer/generate/inference_model.h"

namespace weft {

class RandomModel final : public StoredModel {
 public:
  explicit RandomModel(const ModelShape& shape) : shape_(shape) {}
  const ModelShape& shape() const override { return shape_; }
  const RunVocabulary& vocabulary() const override { return vocabulary_; }
  void read(const Parameter& parameter, DType type, char* to) override {
    std::vector<float> values(static_cast<size_t>(parameter.num_elements));
    initial_values(parameter, shape_.seed, values.data());
    for (int64_t i = 0; i < parameter.num_own; ++i)
      store_element(to, type, i, values[static_cast<size_t>(i)]);
  }
  RunVocabulary& vocabulary() { return vocabulary_; }

 private:
  ModelShape shape_;
  RunVocabulary vocabulary_;
};

struct NamedShape {
  std::string name;
  ModelShape shape;
};
inline void PrintTo(const NamedShape& named,
                    std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << named.name;
}

// The weights are large, so that what a model writes depends on all that it has read.
inline std::vector<NamedShape> all_shapes() {
  ModelShape gpt2 = small_options().shape;
  gpt2.init_method_std = 0.4;
  gpt2.max_positions = 64;
  ModelShape llama = gpt2;
  llama.num_heads = 6;
  llama.num_query_groups = 2;
  llama.has_position_table = false;
  llama.rotary_size = llama.head_size;
  llama.uses_rms_norm = llama.unties_head = true;
  llama.glu = Glu::kSwiglu;
  llama.has_biases = llama.has_qkv_bias = false;
  ModelShape neox = gpt2;
  neox.has_position_table = false;
  neox.rotary_size = neox.head_size / 2;
  neox.rotary_interleaved = true;
  neox.activation = Activation::kGeluErf;
  ModelShape bloom = gpt2;
  bloom.has_position_table = false;
  bloom.has_alibi = bloom.has_embedding_norm = true;
  ModelShape geglu = gpt2;
  geglu.glu = Glu::kGeglu;
  geglu.has_embedding_norm = true;
  ModelShape qwen3 = llama;
  qwen3.has_qk_norm = true;
  qwen3.rope_scaling_factor = 8;
  ModelShape nemotron = neox;
  nemotron.activation = Activation::kSquaredRelu;
  nemotron.has_qk_norm = nemotron.stores_norms_less_one = true;
  return {{"qwen3", qwen3}, {"nemotron", nemotron}, {"gpt2", gpt2},  {"llama", llama},
          {"neox", neox},   {"bloom", bloom},       {"geglu", geglu}};
}

}  // namespace weft
