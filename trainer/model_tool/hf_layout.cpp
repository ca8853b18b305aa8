#include "trainer/model_tool/hf_layout.h"

#include <stdexcept>
#include <utility>

namespace weft {

namespace {

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      break;
    case Activation::kGeluErf:
      return "GELU by erf (--no-bias-gelu-fusion)";
    case Activation::kRelu:
      return "--relu";
    case Activation::kSquaredRelu:
      return "--squared-relu";
  }
  return "GELU";
}

}  // namespace

HfModel hf_model(const ModelShape& shape) {
  const bool has_blooms_part = shape.has_alibi || shape.has_embedding_norm;
  const bool has_llamas_part = shape.uses_rms_norm || shape.glu != Glu::kNone ||
                               shape.num_query_groups > 0 || shape.has_qk_norm ||
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
  check(!shape.stores_norms_less_one, "--apply-layernorm-1p");
  const bool has_own_head_size = shape.num_heads * shape.head_size != shape.hidden_size;
  if (has_blooms_part) {
    check(shape.has_alibi, "no --position-embedding-type alibi");
    check(shape.has_embedding_norm, "no --embed-layernorm");
    check(!shape.uses_rms_norm, "--normalization RMSNorm");
    check(shape.glu == Glu::kNone, "a gated linear unit");
    check(shape.activation == Activation::kGeluTanh, activation_name(shape.activation));
    check(shape.num_query_groups == 0, "--group-query-attention");
    check(shape.has_biases, "no biases (--disable-bias-linear)");
    check(!shape.has_qk_norm, "--qk-layernorm");
    check(!has_own_head_size, "a head size of its own");
    check(shape.ffn_size == 4 * shape.hidden_size,
          "a feed-forward size that is not 4 * hidden size");
    return finish(HfModel::kBloom, "BLOOM");
  }
  if (has_llamas_part) {
    check(!shape.has_biases, "biases (no --disable-bias-linear)");
    check(!shape.has_qkv_bias || !shape.has_qk_norm, "both --add-qkv-bias and --qk-layernorm");
    check(shape.uses_rms_norm, "LayerNorms (no --normalization RMSNorm)");
    check(shape.glu == Glu::kSwiglu, "no --swiglu");
    check(shape.rotary_size == shape.head_size && !shape.rotary_interleaved,
          shape.rotary_interleaved ? "--rotary-interleaved"
                                   : "no --position-embedding-type rope of whole heads and halves");
    if (shape.has_qk_norm) return finish(HfModel::kQwen3, "Qwen3");
    if (shape.has_qkv_bias && !shape.has_biases) return finish(HfModel::kQwen2, "Qwen2");
    return finish(HfModel::kLlama, "LLaMA");
  }
  check(is_gelu(shape.activation), activation_name(shape.activation));
  check(shape.has_biases, "no biases (--disable-bias-linear)");
  check(!has_own_head_size, "a head size of its own");
  return finish(HfModel::kGpt2, "GPT-2");
}

std::string hf_prefix(const ModelShape& shape) {
  const HfModel model = hf_model(shape);
  return model == HfModel::kGpt2 || model == HfModel::kBloom ? "transformer." : "model.";
}

namespace {

// The tensors of a format but the head, in the order in which transformers writes them. Names of a
// layer's lie behind `layers` and its number, and behind "decoder.layers." and its number of ours.
struct HfFormat {
  const char* layers;
  std::vector<HfTensor> first, of_layer, last;
};

// Of LLaMA, and of what adds biases (Qwen2) or norms (Qwen3) of queries and keys to it.
HfFormat llama_format(HfModel model) {
  const char* fc1 = "mlp.linear_fc1.weight";
  HfFormat format{
      "layers.",
      {{"embed_tokens.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows}},
      {{"input_layernorm.weight", "input_layernorm.weight", HfLayout::kSame},
       {"mlp.down_proj.weight", "mlp.linear_fc2.weight", HfLayout::kSame},
       {"mlp.gate_proj.weight", fc1, HfLayout::kGate},
       {"mlp.up_proj.weight", fc1, HfLayout::kUp},
       {"post_attention_layernorm.weight", "pre_mlp_layernorm.weight", HfLayout::kSame}},
      {{"norm.weight", "decoder.final_layernorm.weight", HfLayout::kSame}}};
  const auto add = [&](const std::string& their, const std::string& our, HfLayout layout) {
    format.of_layer.push_back({"self_attn." + their, "self_attention." + our, layout});
  };
  const auto add_projection = [&](const std::string& their, HfLayout layout) {
    if (model == HfModel::kQwen2) add(their + "_proj.bias", "linear_qkv.bias", layout);
    add(their + "_proj.weight", "linear_qkv.weight", layout);
  };
  const auto add_norm = [&](const std::string& their) {
    if (model == HfModel::kQwen3)
      add(their + "_norm.weight", their + "_layernorm.weight", HfLayout::kSame);
  };
  add_norm("k");
  add_projection("k", HfLayout::kKeys);
  add("o_proj.weight", "linear_proj.weight", HfLayout::kSame);
  add_norm("q");
  add_projection("q", HfLayout::kQueries);
  add_projection("v", HfLayout::kValues);
  return format;
}

// Adds the weight and the bias of a part of the model.
void add_both(std::vector<HfTensor>& tensors, const std::string& their, const std::string& our,
              HfLayout weight = HfLayout::kSame, HfLayout bias = HfLayout::kSame) {
  tensors.push_back({their + ".weight", our + ".weight", weight});
  tensors.push_back({their + ".bias", our + ".bias", bias});
}

HfFormat gpt2_format() {
  HfFormat format{"h.",
                  {{"wte.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows},
                   {"wpe.weight", "embedding.position_embeddings.weight", HfLayout::kSame}},
                  {},
                  {}};
  std::vector<HfTensor>& layer = format.of_layer;
  add_both(layer, "ln_1", "input_layernorm");
  add_both(layer, "attn.c_attn", "self_attention.linear_qkv", HfLayout::kQkvTransposed,
           HfLayout::kQkvVector);
  add_both(layer, "attn.c_proj", "self_attention.linear_proj", HfLayout::kTransposed);
  add_both(layer, "ln_2", "pre_mlp_layernorm");
  add_both(layer, "mlp.c_fc", "mlp.linear_fc1", HfLayout::kTransposed);
  add_both(layer, "mlp.c_proj", "mlp.linear_fc2", HfLayout::kTransposed);
  add_both(format.last, "ln_f", "decoder.final_layernorm");
  return format;
}

// The rows of its query_key_value are ordered as ours, per head.
HfFormat bloom_format() {
  HfFormat format{
      "h.",
      {{"word_embeddings.weight", "embedding.word_embeddings.weight", HfLayout::kPaddedRows}},
      {},
      {}};
  add_both(format.first, "word_embeddings_layernorm", "embedding.word_embeddings_layernorm");
  std::vector<HfTensor>& layer = format.of_layer;
  add_both(layer, "input_layernorm", "input_layernorm");
  add_both(layer, "self_attention.query_key_value", "self_attention.linear_qkv");
  add_both(layer, "self_attention.dense", "self_attention.linear_proj");
  add_both(layer, "post_attention_layernorm", "pre_mlp_layernorm");
  add_both(layer, "mlp.dense_h_to_4h", "mlp.linear_fc1");
  add_both(layer, "mlp.dense_4h_to_h", "mlp.linear_fc2");
  add_both(format.last, "ln_f", "decoder.final_layernorm");
  return format;
}

HfFormat format_of(const ModelShape& shape) {
  const HfModel model = hf_model(shape);
  if (model == HfModel::kGpt2) return gpt2_format();
  return model == HfModel::kBloom ? bloom_format() : llama_format(model);
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelShape& shape) {
  const HfFormat format = format_of(shape);
  std::vector<HfTensor> tensors = format.first;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const std::string number = std::to_string(layer) + ".";
    for (const HfTensor& tensor : format.of_layer) {
      tensors.push_back({format.layers + number + tensor.hf_name,
                         "decoder.layers." + number + tensor.parameter, tensor.layout});
    }
  }
  tensors.insert(tensors.end(), format.last.begin(), format.last.end());
  if (shape.unties_head)
    tensors.push_back({"lm_head.weight", "output_layer.weight", HfLayout::kPaddedRows});
  return tensors;
}

namespace {

bool is_transposed(const HfTensor& tensor) {
  return tensor.layout == HfLayout::kTransposed || tensor.layout == HfLayout::kQkvTransposed;
}

}  // namespace

std::vector<int64_t> hf_shape(const HfTensor& tensor, const Parameter& parameter,
                              const ModelShape& shape) {
  std::vector<int64_t> out = parameter.global_shape;
  if (is_transposed(tensor)) std::swap(out[0], out[1]);
  if (tensor.layout == HfLayout::kPaddedRows) out[0] = shape.vocab_size;
  const int64_t C = shape.hidden_size, D = shape.head_size;
  if (tensor.layout == HfLayout::kQueries) out[0] = shape.num_heads * D;
  if (tensor.layout == HfLayout::kKeys || tensor.layout == HfLayout::kValues)
    out[0] = shape.num_groups() * D;
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

// Returns our row of the fused qkv for their row of q_proj, k_proj or v_proj, or of their biases:
// ours lie group by
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

// Returns our index of their element at `row` and `col` of (rows, cols).
int64_t our_index(const HfTensor& tensor, int64_t row, int64_t col, int64_t rows, int64_t cols,
                  const ModelShape& shape) {
  switch (tensor.layout) {
    case HfLayout::kTransposed:
      return col * rows + row;
    case HfLayout::kQkvTransposed:
      return qkv_row(col, shape) * rows + row;
    case HfLayout::kQkvVector:
      return qkv_row(row, shape);
    case HfLayout::kQueries:
    case HfLayout::kKeys:
    case HfLayout::kValues:
      return grouped_row(tensor.layout, row, shape) * cols + col;
    case HfLayout::kUp:
      return (rows + row) * cols + col;
    case HfLayout::kSame:
    case HfLayout::kPaddedRows:
    case HfLayout::kGate:
      break;
  }
  return row * cols + col;
}

}  // namespace

std::vector<HfRun> hf_runs(const HfTensor& tensor, const Parameter& parameter,
                           const ModelShape& shape) {
  const std::vector<int64_t> theirs = hf_shape(tensor, parameter, shape);
  const int64_t rows = theirs[0], cols = theirs.size() > 1 ? theirs[1] : 1;
  std::vector<HfRun> runs;
  if (is_transposed(tensor)) {
    for (int64_t col = 0; col < cols; ++col)
      runs.push_back({our_index(tensor, 0, col, rows, cols, shape), col, cols, rows});
    return runs;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t ours = our_index(tensor, row, 0, rows, cols, shape);
    if (!runs.empty() && runs.back().ours + runs.back().count == ours) {
      runs.back().count += cols;
    } else {
      runs.push_back({ours, row * cols, 1, cols});
    }
  }
  return runs;
}

}  // namespace weft
