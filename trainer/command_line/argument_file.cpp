#include "trainer/command_line/argument_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/whole_files.h"

namespace weft {

namespace {

std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Splits a text as a shell does, but without its variables.
std::vector<std::string> words_of_text(const std::string& text, const std::string& path) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false, is_comment = false;  // a word has begun
  char quote = 0;
  const auto close = [&] {
    if (is_open) words.push_back(word);
    word.clear();
    is_open = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_comment) {
      is_comment = c != '\n';
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      is_open = true;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      close();
    } else if (c == '#' && !is_open) {
      is_comment = true;
    } else if (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n') {
      close();
      ++i;
    } else {
      word += c;
      is_open = true;
    }
  }
  if (quote != 0)
    throw std::runtime_error(fmt::format("--args {}: a {} is not closed", path, quote));
  close();
  return words;
}

std::vector<std::string> words_of_file(const std::string& path) {
  const std::string text = read_regular_file(path);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos ||
      text[text.find_first_not_of(" \t\r\n")] != '{')
    return words_of_text(text, path);
  const auto manifest = parse_json<nlohmann::json>(text);
  if (!manifest.contains("arguments") || !manifest["arguments"].is_object())
    throw std::runtime_error(fmt::format(
        "--args {}: this JSON has no \"arguments\": give a run_manifest.json, or flags", path));
  nlohmann::json arguments = manifest["arguments"];
  arguments.erase("run_dir");  // it follows from --save
  return words_of_resolved(arguments);
}

}  // namespace

std::vector<std::string> words_of_resolved(const nlohmann::json& resolved,
                                           const std::set<std::string>& names) {
  std::vector<std::string> words;
  for (const auto& [name, value] : resolved.items()) {
    if (!names.empty() && !names.contains(name)) continue;
    if (value.is_null() || value == false || (value.is_array() && value.empty()) ||
        value.is_object())
      continue;
    std::string flag = name == "deepspeed_config" ? name : "";
    for (const char c : flag.empty() ? name : "") flag += c == '_' ? '-' : c;
    words.push_back("--" + flag);
    if (value == true) continue;
    if (value.is_array()) {
      for (const auto& element : value) words.push_back(text_of(element));
    } else {
      words.push_back(text_of(value));
    }
  }
  return words;
}

std::vector<std::string> with_argument_files(const std::vector<std::string>& arguments) {
  std::vector<std::string> from_files, others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "--args") {
      others.push_back(arguments[i]);
      continue;
    }
    if (i + 1 == arguments.size()) throw UsageError("--args: needs a file");
    const std::vector<std::string> words = words_of_file(arguments[++i]);
    from_files.insert(from_files.end(), words.begin(), words.end());
  }
  from_files.insert(from_files.end(), others.begin(), others.end());
  return from_files;
}

std::vector<std::string> shape_words_of(const std::string& arguments_json) {
  static const std::set<std::string> kShape = {"num_layers",
                                               "hidden_size",
                                               "ffn_hidden_size",
                                               "num_attention_heads",
                                               "kv_channels",
                                               "seq_length",
                                               "max_position_embeddings",
                                               "vocab_size",
                                               "make_vocab_size_divisible_by",
                                               "pad_vocab_size_to",
                                               "train_padded_vocabulary",
                                               "normalization",
                                               "layernorm_epsilon",
                                               "embed_layernorm",
                                               "qk_layernorm",
                                               "apply_layernorm_1p",
                                               "swiglu",
                                               "glu_activation",
                                               "position_embedding_type",
                                               "use_rotary_position_embeddings",
                                               "rotary_base",
                                               "rotary_percent",
                                               "rotary_interleaved",
                                               "use_rope_scaling",
                                               "rope_scaling_factor",
                                               "group_query_attention",
                                               "num_query_groups",
                                               "no_bias_gelu_fusion",
                                               "squared_relu",
                                               "relu",
                                               "untie_embeddings_and_output_weights",
                                               "disable_bias_linear",
                                               "add_qkv_bias"};
  const auto saved = nlohmann::json::parse(arguments_json, nullptr, /*allow_exceptions=*/false);
  return saved.is_object() ? words_of_resolved(saved, kShape) : std::vector<std::string>();
}

}  // namespace weft
