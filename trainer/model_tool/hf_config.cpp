#include "trainer/model_tool/hf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "trainer/model_tool/hf_layout.h"

namespace weft {

namespace {

using Json = nlohmann::json;

// The fields of a config.json.
struct HfConfig {
  const Json& json;
  const std::filesystem::path& path;

  [[noreturn]] void fail(const std::string& why) const {
    throw std::runtime_error(path.string() + ": " + why);
  }
  bool has(const char* name) const {
    const auto found = json.find(name);
    return found != json.end() && !found->is_null();
  }
  bool flag(const char* name, bool fallback) const {
    const auto found = json.find(name);
    if (found == json.end()) return fallback;
    if (!found->is_boolean()) fail(std::string(name) + " is neither true nor false");
    return found->get<bool>();
  }
  void refuse_if_true(const char* name, const char* why) const {
    if (has(name) && flag(name, false)) fail(std::string(name) + " is true: " + why);
  }
  std::string text(const char* name, const char* fallback) const {
    const auto found = json.find(name);
    if (found == json.end()) return fallback;
    if (!found->is_string()) fail(std::string(name) + " is no text");
    return found->get<std::string>();
  }
  // Returns a size; without a fallback the field must be there.
  int64_t integer(const char* name, int64_t fallback = 0) const {
    if (!has(name)) {
      if (fallback <= 0) fail(std::string("has no field ") + name);
      return fallback;
    }
    const Json& value = json.at(name);
    // No model has more, and products of such numbers do not overflow.
    constexpr int64_t kLimit = 1 << 24;
    if (!value.is_number_integer() || value.get<int64_t>() <= 0 || value.get<int64_t>() > kLimit)
      fail(std::string(name) + " is no integer from 1 to " + std::to_string(kLimit));
    return value.get<int64_t>();
  }
  int64_t num_layers(const char* name) const {
    const int64_t layers = integer(name);
    if (layers > 1 << 16) fail(std::string(name) + " is above 65536");
    return layers;
  }
  float epsilon(const char* name, float fallback) const {
    const auto found = json.find(name);
    if (found == json.end()) return fallback;
    const float value = found->is_number() ? found->get<float>() : 0.0F;
    if (!(value > 0) || !std::isfinite(value)) fail(std::string(name) + " is no positive number");
    return value;
  }
};

constexpr const char* kRotaryBase = "rope_theta";

// Llama-3.1's scaling of rotary frequencies (rotary_frequencies). All of its models have these
// numbers.
constexpr const char* kLlama3 = "llama3";
constexpr const char* kScalingFactor = "factor";
constexpr std::pair<const char*, double> kLlama3Numbers[] = {
    {"low_freq_factor", 1.0},
    {"high_freq_factor", 4.0},
    {"original_max_position_embeddings", 8192.0}};

void refuse_part_of_heads(const HfConfig& config) {
  constexpr const char* kName = "partial_rotary_factor";
  if (config.has(kName) && config.json.at(kName) != 1.0)
    config.fail(std::string(kName) + " is not 1: whole heads have rotary positions");
}

std::optional<double> find_rotary_base(const HfConfig& fields) {
  if (!fields.has(kRotaryBase)) return std::nullopt;
  const Json& base = fields.json.at(kRotaryBase);
  if (!base.is_number() || !(base.get<double>() > 1))
    fields.fail(std::string(kRotaryBase) + " is " + base.dump() + ", no number above 1");
  return base.get<double>();
}

// Returns a text without quotes, and another value as JSON.
std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Returns the factor of Llama-3.1's scaling, whose other numbers are checked.
double llama3_factor(const HfConfig& fields, const std::string& name) {
  const auto number = [&](const char* key) {
    if (!fields.has(key) || !fields.json.at(key).is_number())
      fields.fail(name + " of type llama3 has no number " + key);
    return fields.json.at(key).get<double>();
  };
  for (const auto& [key, value] : kLlama3Numbers) {
    if (number(key) != value)
      fields.fail(name + " has " + key + " " + fields.json.at(key).dump() + ", only " +
                  Json(value).dump() + " is built");
  }
  const double factor = number(kScalingFactor);
  if (!(factor >= 1)) fields.fail(name + " has a factor below 1");
  return factor;
}

bool is_llama3_field(const std::string& key) {
  return key == kScalingFactor ||
         std::any_of(std::begin(kLlama3Numbers), std::end(kLlama3Numbers),
                     [&](const auto& number) { return key == number.first; });
}

// Reads the frequencies of rotary positions into `shape`. Newer versions of transformers write them
// as an object. What is not understood in it is refused: it may mean other frequencies, and a model
// that reads them wrongly still speaks.
void read_rotary_positions(const HfConfig& config, ModelShape& shape) {
  std::optional<double> base = find_rotary_base(config);
  if (config.json.contains(kRotaryBase) && !base)
    config.fail("rope_theta is null, no number above 1");
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (!config.has(name)) continue;
    const Json& rope = config.json.at(name);
    if (!rope.is_object())
      config.fail(std::string(name) + " is " + rope.dump() + ", no object of rotary positions");
    const HfConfig fields{rope, config.path};
    bool is_llama3 = false;
    for (const char* key : {"rope_type", "type"}) {
      if (!fields.has(key) || rope.at(key) == "default") continue;
      is_llama3 = rope.at(key) == kLlama3;
      if (!is_llama3)
        config.fail(std::string(name) + " of type " + text_of(rope.at(key)) + " is not built");
    }
    if (is_llama3) shape.rope_scaling_factor = llama3_factor(fields, name);
    for (const auto& [key, value] : rope.items()) {
      const bool is_known = key == "rope_type" || key == "type" || key == kRotaryBase ||
                            key == "partial_rotary_factor" || (is_llama3 && is_llama3_field(key));
      if (!is_known && !value.is_null())
        config.fail(std::string(name) + " has the field " + key + ", which is not understood");
    }
    refuse_part_of_heads(fields);
    if (const std::optional<double> own = find_rotary_base(fields)) base = own;
  }
  shape.rotary_base = base.value_or(10000.0);
}

void refuse_other_layers(const HfConfig& config) {
  if (!config.has("layer_types")) return;
  for (const Json& type : config.json.at("layer_types")) {
    if (type != "full_attention")
      config.fail("layer_types names " + type.dump() + ", which is not built");
  }
}

// What the defaults of a family of LLaMA's shape are where config.json lacks a field.
struct LlamaFamily {
  const char* model_type;
  bool has_qkv_bias = false, has_qk_norm = false;
  int64_t num_key_value_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  int64_t max_position_embeddings = 2048;
  int64_t sliding_window = 0;  // 0: none
};
// [transformers, models/*/configuration_*.py]
constexpr LlamaFamily kLlamaFamilies[] = {
    {.model_type = "llama"},
    {.model_type = "mistral",
     .num_key_value_heads = 8,
     .max_position_embeddings = 4096 * 32,
     .sliding_window = 4096},
    {.model_type = "qwen2",
     .has_qkv_bias = true,
     .num_key_value_heads = 32,
     .max_position_embeddings = 32768},
    {.model_type = "qwen3",
     .has_qk_norm = true,
     .num_key_value_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768},
};

const LlamaFamily* find_llama_family(const std::string& type) {
  const auto* found = std::find_if(std::begin(kLlamaFamilies), std::end(kLlamaFamilies),
                                   [&](const auto& family) { return type == family.model_type; });
  return found == std::end(kLlamaFamilies) ? nullptr : found;
}

// Attention to the last tokens alone is that to all where the window is as long as the positions.
// Qwen2 and Qwen3 have a window where they say that they use it.
void refuse_sliding_window(const HfConfig& config, const LlamaFamily& family,
                           int64_t max_positions) {
  constexpr const char *kUse = "use_sliding_window", *kWindow = "sliding_window";
  if (family.sliding_window == 0) return config.refuse_if_true(kUse, "windows are not built");
  const bool has_none = config.json.contains(kWindow) && config.json.at(kWindow).is_null();
  if (has_none) return;
  const int64_t window = config.integer(kWindow, family.sliding_window);
  if (window < max_positions)
    config.fail(std::string(kWindow) + " is " + std::to_string(window) + " of " +
                std::to_string(max_positions) +
                " positions: attention to the last tokens alone is not built");
}

ModelShape shape_of_llama(const HfConfig& config, const LlamaFamily& family) {
  for (const char* unsupported : {"attention_bias", "mlp_bias"})
    config.refuse_if_true(unsupported, "such biases are not built");
  refuse_part_of_heads(config);
  refuse_other_layers(config);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu") config.fail("hidden_act " + activation + " is not built");
  ModelShape shape;
  shape.unties_head = !config.flag("tie_word_embeddings", false);
  shape.uses_rms_norm = true;
  shape.has_biases = shape.has_position_table = false;
  shape.has_qkv_bias = family.has_qkv_bias;
  shape.has_qk_norm = family.has_qk_norm;
  shape.glu = Glu::kSwiglu;
  shape.hidden_size = config.integer("hidden_size");
  shape.num_layers = config.num_layers("num_hidden_layers");
  shape.num_heads = config.integer("num_attention_heads");
  constexpr const char* kGroups = "num_key_value_heads";
  const bool has_default =
      family.num_key_value_heads > 0 && !config.json.contains(kGroups);  // null: as many as heads
  const int64_t groups =
      config.integer(kGroups, has_default ? family.num_key_value_heads : shape.num_heads);
  if (shape.num_heads % groups != 0)
    config.fail("num_attention_heads is not a multiple of num_key_value_heads");
  if (groups != shape.num_heads) shape.num_query_groups = groups;
  const bool has_own_head_size = config.has("head_dim") || family.head_dim > 0;
  if (!has_own_head_size && shape.hidden_size % shape.num_heads != 0)
    config.fail("hidden_size is not a multiple of num_attention_heads");
  const int64_t usual_size = std::max<int64_t>(1, shape.hidden_size / shape.num_heads);
  shape.head_size = config.integer("head_dim", family.head_dim > 0 ? family.head_dim : usual_size);
  if (shape.head_size % 2 != 0) config.fail("head_dim is odd, and rotary positions turn pairs");
  shape.rotary_size = shape.head_size;
  read_rotary_positions(config, shape);
  shape.ffn_size = config.integer("intermediate_size");
  shape.max_positions = config.integer("max_position_embeddings", family.max_position_embeddings);
  refuse_sliding_window(config, family, shape.max_positions);
  shape.layernorm_epsilon = config.epsilon("rms_norm_eps", 1e-6F);
  return shape;
}

// Its first versions had other names for three sizes. pretraining_tp only matters with
// slow_but_exact.
ModelShape shape_of_bloom(const HfConfig& config) {
  config.refuse_if_true("apply_residual_connection_post_layernorm",
                        "residuals after the LayerNorm are not built");
  config.refuse_if_true("slow_but_exact",
                        "sums in the order of pretraining_tp ranks are not built; false gives the "
                        "same model but for rounding");
  const auto either = [&](const char* name, const char* older) {
    return config.has(name) ? name : older;
  };
  const char* width = either("hidden_size", "n_embed");
  const char* heads = either("n_head", "num_attention_heads");
  ModelShape shape;
  shape.unties_head = !config.flag("tie_word_embeddings", true);
  shape.has_embedding_norm = shape.has_alibi = true;
  shape.has_position_table = false;
  shape.hidden_size = config.integer(width);
  shape.num_layers = config.num_layers(either("n_layer", "num_hidden_layers"));
  shape.num_heads = config.integer(heads);
  if (shape.hidden_size % shape.num_heads != 0)
    config.fail(std::string(width) + " is not a multiple of " + heads);
  shape.head_size = shape.hidden_size / shape.num_heads;
  shape.ffn_size = 4 * shape.hidden_size;
  if (config.integer("n_inner", shape.ffn_size) != shape.ffn_size)
    config.fail("n_inner is not four times " + std::string(width) + ", which BLOOM always has");
  shape.max_positions = config.integer("seq_length", 2048);
  shape.layernorm_epsilon = config.epsilon("layer_norm_epsilon", 1e-5F);
  return shape;
}

ModelShape shape_of_gpt2(const HfConfig& config) {
  for (const char* unsupported :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"})
    config.refuse_if_true(unsupported, "this variant is not GPT-2 as Weft trains it");
  if (!config.flag("scale_attn_weights", true))
    config.fail("scale_attn_weights is false: this variant is not GPT-2 as Weft trains it");
  ModelShape shape;
  shape.unties_head = !config.flag("tie_word_embeddings", true);
  shape.hidden_size = config.integer("n_embd");
  shape.num_layers = config.num_layers("n_layer");
  shape.num_heads = config.integer("n_head");
  if (shape.hidden_size % shape.num_heads != 0) config.fail("n_embd is not a multiple of n_head");
  shape.head_size = shape.hidden_size / shape.num_heads;
  shape.ffn_size = config.integer("n_inner", 4 * shape.hidden_size);
  shape.max_positions = config.integer("n_positions");
  shape.layernorm_epsilon = config.epsilon("layer_norm_epsilon", 1e-5F);
  const std::string activation = config.text("activation_function", "gelu_new");
  if (activation == "gelu") {
    shape.activation = Activation::kGeluErf;
  } else if (activation != "gelu_new" && activation != "gelu_fast" &&
             activation != "gelu_pytorch_tanh") {
    config.fail("activation_function " + activation + " is not built");
  }
  return shape;
}

// Returns the shortest decimal number that is `value` in fp32: 1e-05, not 9.999999747378752e-06.
double as_written(float value) {
  char text[32];
  *std::to_chars(text, text + sizeof text - 1, value).ptr = '\0';
  return std::strtod(text, nullptr);
}

const char* type_name(DType dtype) {
  if (dtype == DType::kFloat16) return "float16";
  return dtype == DType::kFloat32 ? "float32" : "bfloat16";
}

using Fields = nlohmann::ordered_json;

// rope_theta and rope_scaling stand where all versions of transformers find them.
Fields llama_fields(const ModelShape& shape, const HfTraining& training, const char* architecture,
                    const char* model_type) {
  Fields fields = {{"architectures", {architecture}},
                   {"model_type", model_type},
                   {"hidden_act", "silu"},
                   {"vocab_size", shape.vocab_size},
                   {"max_position_embeddings", shape.max_positions},
                   {"hidden_size", shape.hidden_size},
                   {"intermediate_size", shape.ffn_size},
                   {"num_hidden_layers", shape.num_layers},
                   {"num_attention_heads", shape.num_heads},
                   {"num_key_value_heads", shape.num_groups()},
                   {"head_dim", shape.head_size},
                   {"rms_norm_eps", as_written(shape.layernorm_epsilon)},
                   {"rope_theta", shape.rotary_base},
                   {"attention_dropout", training.attention_dropout}};
  const std::string type = model_type;
  if (type != "qwen2") fields["attention_bias"] = false;
  if (type == "llama") fields["mlp_bias"] = false;
  if (type != "llama") fields["use_sliding_window"] = false;
  if (shape.rope_scaling_factor > 0) {
    Fields& scaling = fields["rope_scaling"];
    scaling = {{"rope_type", kLlama3}, {kScalingFactor, shape.rope_scaling_factor}};
    for (const auto& [key, value] : kLlama3Numbers) scaling[key] = value;
    scaling["original_max_position_embeddings"] = 8192;  // an integer there
  }
  return fields;
}

Fields bloom_fields(const ModelShape& shape, const HfTraining& training) {
  return {{"architectures", {"BloomForCausalLM"}},
          {"model_type", "bloom"},
          {"vocab_size", shape.vocab_size},
          {"hidden_size", shape.hidden_size},
          {"n_layer", shape.num_layers},
          {"n_head", shape.num_heads},
          {"seq_length", shape.max_positions},
          {"layer_norm_epsilon", as_written(shape.layernorm_epsilon)},
          {"apply_residual_connection_post_layernorm", false},
          {"hidden_dropout", training.hidden_dropout},
          {"attention_dropout", training.attention_dropout},
          {"pretraining_tp", 1},
          {"slow_but_exact", false}};
}

Fields gpt2_fields(const ModelShape& shape, const HfTraining& training) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", shape.activation == Activation::kGeluTanh ? "gelu_new" : "gelu"},
          {"vocab_size", shape.vocab_size},
          {"n_positions", shape.max_positions},
          {"n_ctx", shape.max_positions},
          {"n_embd", shape.hidden_size},
          {"n_layer", shape.num_layers},
          {"n_head", shape.num_heads},
          {"n_inner", shape.ffn_size},
          {"layer_norm_epsilon", as_written(shape.layernorm_epsilon)},
          {"resid_pdrop", training.hidden_dropout},
          {"embd_pdrop", training.hidden_dropout},
          {"attn_pdrop", training.attention_dropout},
          {"scale_attn_weights", true}};
}

Fields fields_of(const ModelShape& shape, const HfTraining& training) {
  switch (hf_model(shape)) {
    case HfModel::kLlama:
      return llama_fields(shape, training, "LlamaForCausalLM", "llama");
    case HfModel::kQwen2:
      return llama_fields(shape, training, "Qwen2ForCausalLM", "qwen2");
    case HfModel::kQwen3:
      return llama_fields(shape, training, "Qwen3ForCausalLM", "qwen3");
    case HfModel::kBloom:
      return bloom_fields(shape, training);
    case HfModel::kGpt2:
      break;
  }
  return gpt2_fields(shape, training);
}

}  // namespace

ModelShape shape_from_hf_config(const Json& json, const std::filesystem::path& path,
                                int64_t vocabulary_divisor) {
  const HfConfig config{json, path};
  if (!json.is_object()) config.fail("it holds no JSON object");
  const std::string type = config.text("model_type", "not given");
  const LlamaFamily* llama = find_llama_family(type);
  if (llama == nullptr && type != "gpt2" && type != "bloom")
    config.fail("model_type is " + type +
                ", only gpt2, bloom, llama, mistral, qwen2 and qwen3 can be imported");
  if (config.has("quantization_config"))
    config.fail("quantization_config is given: quantized weights cannot be imported");
  ModelShape shape = llama != nullptr  ? shape_of_llama(config, *llama)
                     : type == "bloom" ? shape_of_bloom(config)
                                       : shape_of_gpt2(config);
  shape.seq_length = shape.max_positions;
  shape.vocab_size = config.integer("vocab_size");
  shape.padded_vocab_size =
      (shape.vocab_size + vocabulary_divisor - 1) / vocabulary_divisor * vocabulary_divisor;
  return shape;
}

std::string hf_config_json(const ModelShape& shape, const HfTraining& training, DType dtype,
                           int64_t end_of_document) {
  Fields config = fields_of(shape, training);
  config["initializer_range"] = training.init_method_std;
  config["tie_word_embeddings"] = !shape.unties_head;
  // Without the fields transformers would take the tokens of its own models.
  const Fields end = end_of_document >= 0 ? Fields(end_of_document) : Fields();
  config["bos_token_id"] = end;
  config["eos_token_id"] = end;
  config["torch_dtype"] = type_name(dtype);
  return config.dump(2) + "\n";
}

}  // namespace weft
