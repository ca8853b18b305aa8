#include "tokenizer/formats/learned_files.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats/known_patterns.h"

namespace weft {
namespace {

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

std::string printable_merge(const LearnedVocabulary& learned, std::pair<int32_t, int32_t> merge) {
  return to_printable(learned.entries[static_cast<size_t>(merge.first)]) + ' ' +
         to_printable(learned.entries[static_cast<size_t>(merge.second)]);
}

// One object: spelling -> id. Libraries for JSON would sort it, or take quadratic time.
std::string ids_by_spelling(const LearnedVocabulary& learned) {
  std::string json;
  size_t id = 0;
  const auto append = [&](const std::string& spelling) {
    json += json.empty() ? "{" : ",";
    json += json_text(spelling) + ":" + std::to_string(id++);
  };
  for (const std::string& entry : learned.entries) append(to_printable(entry));
  for (const std::string& token : learned.special_tokens) append(token);
  return json + "}";
}

// The special tokens as tokenizer.json's added tokens.
nlohmann::ordered_json added_special_tokens(const LearnedVocabulary& learned) {
  auto tokens = nlohmann::ordered_json::array();
  for (const std::string& content : learned.special_tokens) {
    tokens.push_back({{"id", learned.entries.size() + tokens.size()},
                      {"content", content},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  }
  return tokens;
}

}  // namespace

std::string vocab_json_of(const LearnedVocabulary& learned) {
  return ids_by_spelling(learned) + "\n";
}

std::string merges_txt_of(const LearnedVocabulary& learned) {
  std::string text = "#version: 0.2\n";
  for (const auto& merge : learned.merges) text += printable_merge(learned, merge) + '\n';
  return text;
}

std::string tokenizer_json_of(const LearnedVocabulary& learned, SplitKind pattern) {
  using json = nlohmann::ordered_json;
  const json around = {{"version", "1.0"},          {"truncation", nullptr},
                       {"padding", nullptr},        {"added_tokens", added_special_tokens(learned)},
                       {"normalizer", nullptr},     {"pre_tokenizer", pre_tokenizer_of(pattern)},
                       {"post_processor", nullptr}, {"decoder", byte_level_step(true)}};
  const json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false}};
  // Both objects go on behind their last member.
  std::string text = around.dump(1), model_text = model.dump();
  text.resize(text.size() - 2);
  model_text.pop_back();
  text +=
      ",\n \"model\": " + model_text + ",\"vocab\":" + ids_by_spelling(learned) + ",\"merges\":[";
  for (size_t i = 0; i < learned.merges.size(); ++i) {
    if (i > 0) text += ",";
    text += json_text(printable_merge(learned, learned.merges[i]));
  }
  return text + "]}\n}\n";
}

}  // namespace weft
