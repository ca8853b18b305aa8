#include "trainer/model_tool/hf_layout.h"

#include <stdexcept>
#include <utility>

namespace weft {

HfModel hf_model(const ModelShape& shape) {
  const bool has_blooms_part = shape.has_alibi || shape.has_embedding_norm;
  const bool has_llamas_part = shape.uses_rms_norm || shape.glu != Glu::kNone ||
                               shape.num_query_groups > 0 ||
                               (!shape.has_position_table && !shape.has_alibi);
  std::string in_the_way;
  const auto check = [&](bool fits, const char* what) {
    if (!fits) in_the_way += (in_the_way.empty() ? "" : ", ") + std::string(what);
  };
  const auto finish = [&](HfModel model, const char* name) {
    if (in_the_way.empty()) return model;
    throw std::runtime_error(std::string("Hugging Face's ") + name +
                             " cannot hold this model, which has " + in_the_way);
  };
  const bool has_own_head_size = shape.num_heads * shape.head_size != shape.hidden_size;
  if (has_blooms_part) {
    check(shape.has_alibi, "no --position-embedding-type alibi");
    check(shape.has_embedding_norm, "no --embed-layernorm");
    check(!shape.uses_rms_norm, "--normalization RMSNorm");
    check(shape.glu == Glu::kNone, "a gated linear unit");
    check(shape.gelu == Gelu::kTanh, "GELU by erf (--no-bias-gelu-fusion)");
    check(shape.num_query_groups == 0, "--group-query-attention");
    check(shape.has_biases, "no biases (--disable-bias-linear)");
    check(!has_own_head_size, "a head size of its own");
    check(shape.ffn_size == 4 * shape.hidden_size,
          "a feed-forward size that is not 4 * hidden size");
    return finish(HfModel::kBloom, "BLOOM");
  }
  if (has_llamas_part) {
    check(!shape.has_qkv_bias, "biases (no --disable-bias-linear, or --add-qkv-bias)");
    check(shape.uses_rms_norm, "LayerNorms (no --normalization RMSNorm)");
    check(shape.glu == Glu::kSwiglu, "no --swiglu");
    check(shape.rotary_size == shape.head_size && !shape.rotary_interleaved,
          shape.rotary_interleaved ? "--rotary-interleaved"
                                   : "no --position-embedding-type rope of whole heads and halves");
    return finish(HfModel::kLlama, "LLaMA");
  }
  check(shape.has_biases, "no biases (--disable-bias-linear)");
  check(!has_own_head_size, "a head size of its own");
  return finish(HfModel::kGpt2, "GPT-2");
}

std::string hf_prefix(const ModelShape& shape) {
  return hf_model(shape) == HfModel::kLlama ? "model." : "transformer.";
}

namespace {

std::vector<HfTensor> llama_tensors(const ModelShape& shape) {
  std::vector<HfTensor> tensors = {
      {"embed_tokens.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows}};
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string hf = "layers." + std::to_string(layer) + ".";
    const std::string our = "decoder.layers." + std::to_string(layer) + ".";
    const std::string qkv = our + "self_attention.linear_qkv.weight";
    const std::string fc1 = our + "mlp.linear_fc1.weight";
    tensors.insert(
        tensors.end(),
        {{hf + "input_layernorm.weight", our + "input_layernorm.weight", HfLayout::kSame},
         {hf + "mlp.down_proj.weight", our + "mlp.linear_fc2.weight", HfLayout::kSame},
         {hf + "mlp.gate_proj.weight", fc1, HfLayout::kGate},
         {hf + "mlp.up_proj.weight", fc1, HfLayout::kUp},
         {hf + "post_attention_layernorm.weight", our + "pre_mlp_layernorm.weight",
          HfLayout::kSame},
         {hf + "self_attn.k_proj.weight", qkv, HfLayout::kKeys},
         {hf + "self_attn.o_proj.weight", our + "self_attention.linear_proj.weight",
          HfLayout::kSame},
         {hf + "self_attn.q_proj.weight", qkv, HfLayout::kQueries},
         {hf + "self_attn.v_proj.weight", qkv, HfLayout::kValues}});
  }
  tensors.push_back({"norm.weight", "decoder.final_layernorm.weight", HfLayout::kSame});
  return tensors;
}

std::vector<HfTensor> gpt2_tensors(const ModelShape& shape) {
  std::vector<HfTensor> tensors = {
      {"wte.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows},
      {"wpe.weight", "embedding.position_embeddings.weight", HfLayout::kSame}};
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string hf = "h." + std::to_string(layer) + ".";
    const std::string our = "decoder.layers." + std::to_string(layer) + ".";
    tensors.insert(
        tensors.end(),
        {{hf + "ln_1.weight", our + "input_layernorm.weight", HfLayout::kSame},
         {hf + "ln_1.bias", our + "input_layernorm.bias", HfLayout::kSame},
         {hf + "attn.c_attn.weight", our + "self_attention.linear_qkv.weight",
          HfLayout::kQkvTransposed},
         {hf + "attn.c_attn.bias", our + "self_attention.linear_qkv.bias", HfLayout::kQkvVector},
         {hf + "attn.c_proj.weight", our + "self_attention.linear_proj.weight",
          HfLayout::kTransposed},
         {hf + "attn.c_proj.bias", our + "self_attention.linear_proj.bias", HfLayout::kSame},
         {hf + "ln_2.weight", our + "pre_mlp_layernorm.weight", HfLayout::kSame},
         {hf + "ln_2.bias", our + "pre_mlp_layernorm.bias", HfLayout::kSame},
         {hf + "mlp.c_fc.weight", our + "mlp.linear_fc1.weight", HfLayout::kTransposed},
         {hf + "mlp.c_fc.bias", our + "mlp.linear_fc1.bias", HfLayout::kSame},
         {hf + "mlp.c_proj.weight", our + "mlp.linear_fc2.weight", HfLayout::kTransposed},
         {hf + "mlp.c_proj.bias", our + "mlp.linear_fc2.bias", HfLayout::kSame}});
  }
  tensors.push_back({"ln_f.weight", "decoder.final_layernorm.weight", HfLayout::kSame});
  tensors.push_back({"ln_f.bias", "decoder.final_layernorm.bias", HfLayout::kSame});
  return tensors;
}

// The rows of its query_key_value are ordered as ours, per head.
std::vector<HfTensor> bloom_tensors(const ModelShape& shape) {
  const std::string norm = "word_embeddings_layernorm";
  std::vector<HfTensor> tensors = {
      {"word_embeddings.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows},
      {norm + ".weight", "embedding." + norm + ".weight", HfLayout::kSame},
      {norm + ".bias", "embedding." + norm + ".bias", HfLayout::kSame}};
  constexpr std::pair<const char*, const char*> kParts[] = {
      {"input_layernorm", "input_layernorm"},
      {"self_attention.query_key_value", "self_attention.linear_qkv"},
      {"self_attention.dense", "self_attention.linear_proj"},
      {"post_attention_layernorm", "pre_mlp_layernorm"},
      {"mlp.dense_h_to_4h", "mlp.linear_fc1"},
      {"mlp.dense_4h_to_h", "mlp.linear_fc2"}};
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    for (const auto& [their, our] : kParts) {
      for (const char* kind : {".weight", ".bias"}) {
        const std::string number = std::to_string(layer) + ".";
        tensors.push_back({"h." + number + their + kind, "decoder.layers." + number + our + kind,
                           HfLayout::kSame});
      }
    }
  }
  tensors.push_back({"ln_f.weight", "decoder.final_layernorm.weight", HfLayout::kSame});
  tensors.push_back({"ln_f.bias", "decoder.final_layernorm.bias", HfLayout::kSame});
  return tensors;
}

std::vector<HfTensor> tensors_without_head(const ModelShape& shape) {
  switch (hf_model(shape)) {
    case HfModel::kLlama:
      return llama_tensors(shape);
    case HfModel::kBloom:
      return bloom_tensors(shape);
    case HfModel::kGpt2:
      break;
  }
  return gpt2_tensors(shape);
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelShape& shape) {
  std::vector<HfTensor> tensors = tensors_without_head(shape);
  if (shape.unties_head)
    tensors.push_back({"lm_head.weight", "output_layer.weight", HfLayout::kPaddedRows});
  return tensors;
}

std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape) {
  std::vector<int64_t> out = parameter.global_shape;
  if (tensor.layout == HfLayout::kTransposed || tensor.layout == HfLayout::kQkvTransposed)
    std::swap(out[0], out[1]);
  if (tensor.layout == HfLayout::kPaddedRows) out[0] = shape.vocab_size;
  const int64_t C = shape.hidden_size, D = shape.head_size;
  if (tensor.layout == HfLayout::kQueries) out = {shape.num_heads * D, C};
  if (tensor.layout == HfLayout::kKeys || tensor.layout == HfLayout::kValues)
    out = {shape.num_groups() * D, C};
  if (tensor.layout == HfLayout::kGate || tensor.layout == HfLayout::kUp) out = {shape.ffn_size, C};
  return out;
}

namespace {

// Returns our row of the fused qkv for their column (s, head, d).
int64_t qkv_row(int64_t column, const ModelShape& shape) {
  const int64_t D = shape.head_size, H = shape.num_heads;
  const int64_t s = column / (H * D), head = column / D % H, d = column % D;
  return (head * 3 + s) * D + d;
}

// Returns our row of the fused qkv for their row of q_proj, k_proj or v_proj: ours lie group by
// group, [queries, key, value].
int64_t grouped_row(HfLayout layout, int64_t row, const ModelShape& shape) {
  const int64_t D = shape.head_size, queries = shape.num_heads / shape.num_groups();
  const int64_t head = row / D;
  const int64_t group = layout == HfLayout::kQueries ? head / queries : head;
  const int64_t part = layout == HfLayout::kQueries ? head % queries
                       : layout == HfLayout::kKeys  ? queries
                                                    : queries + 1;
  return (group * (queries + 2) + part) * D + row % D;
}

// Calls move(their index, our index) for every element that both sides have.
template <typename Move>
void for_each_element(const HfTensor& tensor, const Parameter& parameter, const ModelShape& shape,
                      Move move) {
  const std::vector<int64_t> theirs = hf_shape(tensor, parameter, shape);
  const int64_t rows = theirs[0], cols = theirs.size() > 1 ? theirs[1] : 1;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const int64_t their = row * cols + col;
      switch (tensor.layout) {
        case HfLayout::kSame:
        case HfLayout::kPaddedRows:
          move(their, their);
          break;
        case HfLayout::kTransposed:
          move(their, col * rows + row);
          break;
        case HfLayout::kQkvTransposed:
          move(their, qkv_row(col, shape) * rows + row);
          break;
        case HfLayout::kQkvVector:
          move(their, qkv_row(row, shape));
          break;
        case HfLayout::kQueries:
        case HfLayout::kKeys:
        case HfLayout::kValues:
          move(their, grouped_row(tensor.layout, row, shape) * cols + col);
          break;
        case HfLayout::kGate:
          move(their, their);
          break;
        case HfLayout::kUp:
          move(their, rows * cols + their);
          break;
      }
    }
  }
}

}  // namespace

void to_hf(float* theirs, const float* ours, const HfTensor& tensor, const Parameter& parameter,
           const ModelShape& shape) {
  for_each_element(tensor, parameter, shape,
                   [&](int64_t their, int64_t our) { theirs[their] = ours[our]; });
}

void from_hf(float* ours, const float* theirs, const HfTensor& tensor, const Parameter& parameter,
             const ModelShape& shape) {
  for_each_element(tensor, parameter, shape,
                   [&](int64_t their, int64_t our) { ours[our] = theirs[their]; });
}

}  // namespace weft
