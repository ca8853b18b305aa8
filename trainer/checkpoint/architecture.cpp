#include "trainer/checkpoint/architecture.h"

#include <charconv>
#include <cstdio>
#include <stdexcept>

namespace weft {

namespace {

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

std::string shortest(float value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

}  // namespace

std::map<std::string, std::string> architecture_of(const ModelShape& shape) {
  return {{"num_layers", std::to_string(shape.num_layers)},
          {"hidden_size", std::to_string(shape.hidden_size)},
          {"num_attention_heads", std::to_string(shape.num_heads)},
          {"kv_channels", std::to_string(shape.head_size)},
          {"ffn_hidden_size", std::to_string(shape.ffn_size)},
          {"max_position_embeddings", std::to_string(shape.max_positions)},
          {"vocab_size", std::to_string(shape.vocab_size)},
          {"padded_vocab_size", std::to_string(shape.padded_vocab_size)},
          {"layernorm_epsilon", shortest(shape.layernorm_epsilon)},
          {"gelu", shape.gelu == Gelu::kTanh ? "tanh" : "erf"}};
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
  shape.padded_vocab_size = number<int64_t>(architecture, "padded_vocab_size");
  shape.layernorm_epsilon = number<float>(architecture, "layernorm_epsilon");
  shape.gelu = field(architecture, "gelu") == "erf" ? Gelu::kErf : Gelu::kTanh;
  shape.micro_batch_size = 1;
  return shape;
}

std::vector<std::string> architecture_differences(
    const std::map<std::string, std::string>& checkpoint,
    const std::map<std::string, std::string>& run) {
  std::vector<std::string> differences;
  for (const auto& [name, value] : run) {
    const auto found = checkpoint.find(name);
    const std::string stored = found == checkpoint.end() ? "nothing" : found->second;
    if (stored != value)
      differences.push_back(name + " is " + stored + " in the checkpoint and " + value +
                            " in this run");
  }
  return differences;
}

}  // namespace weft
