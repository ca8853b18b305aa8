#include "trainer/resume/architecture.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <stdexcept>

namespace weft {

namespace {

// The padded size where the padding is trained (--train-padded-vocabulary), else absent.
const std::string kTrainedPadding = "padded_vocab_size";
// Absent where positions are learned.
const std::string kPositions = "position_embedding_type";

// The activation, under the name that it had when all were GELU.
const std::string kActivation = "gelu";

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"tanh", Activation::kGeluTanh},
    {"erf", Activation::kGeluErf},
    {"relu", Activation::kRelu},
    {"squared_relu", Activation::kSquaredRelu},
};

const char* name_of(Activation activation) {
  return std::ranges::find(kActivations, activation, &std::pair<const char*, Activation>::second)
      ->first;
}

Activation activation_of(const std::string& name) {
  for (const auto& [known, activation] : kActivations) {
    if (name == known) return activation;
  }
  throw std::runtime_error("the checkpoint's activation (gelu) is unknown: " + name);
}

const char* name_of(Glu glu) {
  switch (glu) {
    case Glu::kNone:
      break;
    case Glu::kSwiglu:
      return "swiglu";
    case Glu::kGeglu:
      return "geglu";
    case Glu::kReglu:
      return "reglu";
    case Glu::kLiglu:
      return "liglu";
  }
  return "";
}

Glu glu_of(const std::string& name) {
  for (const Glu glu : {Glu::kSwiglu, Glu::kGeglu, Glu::kReglu, Glu::kLiglu}) {
    if (name == name_of(glu)) return glu;
  }
  throw std::runtime_error("the checkpoint's glu_activation is unknown: " + name);
}

const std::string& field(const std::map<std::string, std::string>& architecture,
                         const std::string& name) {
  const auto found = architecture.find(name);
  if (found == architecture.end())
    throw std::runtime_error("the checkpoint's architecture has no field " + name);
  return found->second;
}

template <typename T>
T number(const std::map<std::string, std::string>& architecture, const std::string& name) {
  const std::string& text = field(architecture, name);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::runtime_error("the checkpoint's " + name + " is no number: " + text);
  }
  return value;
}

template <typename Real>
std::string shortest(Real value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::map<std::string, std::string> architecture_of(const ModelShape& shape) {
  std::map<std::string, std::string> architecture = {
      {"num_layers", std::to_string(shape.num_layers)},
      {"hidden_size", std::to_string(shape.hidden_size)},
      {"num_attention_heads", std::to_string(shape.num_heads)},
      {"kv_channels", std::to_string(shape.head_size)},
      {"ffn_hidden_size", std::to_string(shape.ffn_size)},
      {"max_position_embeddings", std::to_string(shape.max_positions)},
      {"vocab_size", std::to_string(shape.vocab_size)},
      {"layernorm_epsilon", shortest(shape.layernorm_epsilon)},
      {kActivation, name_of(shape.activation)}};
  // Properties that GPT-2 lacks are named only where a model has them.
  const auto add = [&](const char* name, bool is_there) {
    if (is_there) architecture[name] = "true";
  };
  if (shape.uses_rms_norm) architecture["normalization"] = "RMSNorm";
  add("qk_layernorm", shape.has_qk_norm);
  add("apply_layernorm_1p", shape.stores_norms_less_one);
  if (shape.glu != Glu::kNone) architecture["glu_activation"] = name_of(shape.glu);
  if (!shape.has_position_table) {
    architecture[kPositions] = shape.has_alibi ? "alibi" : shape.rotary_size > 0 ? "rope" : "none";
  }
  if (shape.rotary_size > 0) {
    architecture["rotary_size"] = std::to_string(shape.rotary_size);
    architecture["rotary_base"] = shortest(shape.rotary_base);
    if (shape.rope_scaling_factor > 0)
      architecture["rope_scaling_factor"] = shortest(shape.rope_scaling_factor);
  }
  add("rotary_interleaved", shape.rotary_interleaved);
  add("embed_layernorm", shape.has_embedding_norm);
  if (shape.num_query_groups > 0)
    architecture["num_query_groups"] = std::to_string(shape.num_query_groups);
  add("untie_embeddings_and_output_weights", shape.unties_head);
  add("disable_bias_linear", !shape.has_biases);
  add("add_qkv_bias", !shape.has_biases && shape.has_qkv_bias);
  // Padding is a property of a run, unless it is trained.
  if (shape.train_padded_vocabulary)
    architecture[kTrainedPadding] = std::to_string(shape.padded_vocab_size);
  return architecture;
}

ModelShape shape_from(const std::map<std::string, std::string>& architecture) {
  ModelShape shape;
  shape.num_layers = number<int64_t>(architecture, "num_layers");
  shape.hidden_size = number<int64_t>(architecture, "hidden_size");
  shape.num_heads = number<int64_t>(architecture, "num_attention_heads");
  shape.head_size = number<int64_t>(architecture, "kv_channels");
  shape.ffn_size = number<int64_t>(architecture, "ffn_hidden_size");
  shape.max_positions = shape.seq_length = number<int64_t>(architecture, "max_position_embeddings");
  shape.vocab_size = number<int64_t>(architecture, "vocab_size");
  shape.train_padded_vocabulary = architecture.contains(kTrainedPadding);
  shape.layernorm_epsilon = number<float>(architecture, "layernorm_epsilon");
  shape.activation = activation_of(field(architecture, kActivation));
  shape.uses_rms_norm = architecture.contains("normalization");
  shape.has_qk_norm = architecture.contains("qk_layernorm");
  shape.stores_norms_less_one = architecture.contains("apply_layernorm_1p");
  if (architecture.contains("glu_activation"))
    shape.glu = glu_of(field(architecture, "glu_activation"));
  shape.has_embedding_norm = architecture.contains("embed_layernorm");
  shape.has_position_table = !architecture.contains(kPositions);
  shape.has_alibi = !shape.has_position_table && field(architecture, kPositions) == "alibi";
  if (architecture.contains("rotary_size")) {
    shape.rotary_size = number<int64_t>(architecture, "rotary_size");
    shape.rotary_base = number<double>(architecture, "rotary_base");
    shape.rotary_interleaved = architecture.contains("rotary_interleaved");
    if (architecture.contains("rope_scaling_factor"))
      shape.rope_scaling_factor = number<double>(architecture, "rope_scaling_factor");
  }
  if (architecture.contains("num_query_groups"))
    shape.num_query_groups = number<int64_t>(architecture, "num_query_groups");
  shape.unties_head = architecture.contains("untie_embeddings_and_output_weights");
  shape.has_biases = !architecture.contains("disable_bias_linear");
  shape.has_qkv_bias = shape.has_biases || architecture.contains("add_qkv_bias");
  shape.micro_batch_size = 1;
  // No model has more, and products of such numbers do not overflow.
  constexpr int64_t kLimit = 1 << 24;
  for (const int64_t size : {shape.num_layers, shape.hidden_size, shape.num_heads, shape.head_size,
                             shape.ffn_size, shape.max_positions, shape.vocab_size}) {
    if (size < 1 || size > kLimit) {
      throw std::runtime_error("the checkpoint's architecture has a size of " +
                               std::to_string(size) + ", outside of 1 to " +
                               std::to_string(kLimit));
    }
  }
  // Without trained padding any will do; this one suits every backend.
  constexpr int64_t kMultiple = 128;
  shape.padded_vocab_size = shape.train_padded_vocabulary
                                ? number<int64_t>(architecture, kTrainedPadding)
                                : (shape.vocab_size + kMultiple - 1) / kMultiple * kMultiple;
  if (shape.padded_vocab_size < shape.vocab_size || shape.padded_vocab_size > 2 * kLimit)
    throw std::runtime_error("the checkpoint's padded_vocab_size is out of range");
  if (!(shape.layernorm_epsilon > 0))
    throw std::runtime_error("the checkpoint's layernorm_epsilon is not positive");
  if (shape.rotary_size < 0 || shape.rotary_size > shape.head_size || shape.rotary_size % 2 != 0 ||
      !(shape.rotary_base > 1) ||
      !(shape.rope_scaling_factor == 0 || shape.rope_scaling_factor >= 1)) {
    throw std::runtime_error(
        "the checkpoint's rotary_size, rotary_base or rope_scaling_factor is out of range");
  }
  if (shape.num_query_groups < 0 || shape.num_heads % shape.num_groups() != 0)
    throw std::runtime_error("the checkpoint's num_query_groups is out of range");
  return shape;
}

std::vector<std::string> architecture_differences(
    const std::map<std::string, std::string>& checkpoint,
    const std::map<std::string, std::string>& run) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : run) {
    // Without a table of positions sequences of any length may follow.
    if (name == "max_position_embeddings" && run.contains(kPositions)) continue;
    const auto found = checkpoint.find(name);
    const std::string stored = found == checkpoint.end() ? "not given" : found->second;
    if (stored == value) continue;
    differences.push_back(name + " is " + stored + " in the checkpoint and " + value +
                          " in this run");
    // Many models have more rows than their tokenizer has words: 50,304 for the 50,257 of GPT-2.
    if (name == "vocab_size" && found != checkpoint.end())
      differences.back() +=
          "; give --vocab-size " + stored + " to train on with all rows of its embedding";
  }
  for (const auto& [name, value] : checkpoint) {
    if (run.contains(name)) continue;
    differences.push_back(name == kTrainedPadding
                              ? "the checkpoint was trained with its padded vocabulary (" + value +
                                    " words); give --train-padded-vocabulary"
                              : name + " is " + value +
                                    " in the checkpoint and not given in this run");
  }
  return differences;
}

}  // namespace weft
