#include "tokenizer/formats/tokenizer_json_text.h"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tokenizer/formats/entry_index.h"
#include "tokenizer/formats/json_members.h"

namespace weft {
namespace {

using nlohmann::json;

// Added tokens of one file; Whisper has 1,609.
constexpr size_t kMaxAddedTokens = size_t{1} << 17;

[[noreturn]] void refuse(const Vocabulary::Parts& parts, const std::string& why) {
  throw std::runtime_error(parts.name + ": " + why);
}

AddedToken added_token_of(const json& token, const Vocabulary::Parts& parts) {
  AddedToken added = {.content = text_of(token, "content"),
                      .id = id_of(token, "id"),
                      .special = flag_of(token, "special", false),
                      .normalized = flag_of(token, "normalized", false),
                      .lstrip = flag_of(token, "lstrip", false),
                      .rstrip = flag_of(token, "rstrip", false),
                      .single_word = flag_of(token, "single_word", false)};
  if (added.content.empty() || added.id < 0)
    refuse(parts, "an entry of added_tokens has no content or no id: " + token.dump());
  return added;
}

// The ids that one processor puts before and behind a text.
struct Template {
  std::vector<int32_t> prefix, suffix;
};

void append_special(const json& piece, const json& special_tokens, std::vector<int32_t>& ids,
                    const Vocabulary::Parts& parts) {
  const std::string name = text_of(piece, "id");
  for (const json& id : member(member(special_tokens, name.c_str()), "ids")) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < parts.entries.size()) {
      ids.push_back(id.get<int32_t>());
    } else {
      refuse(parts,
             "post_processor: the template's token '" + name + "' has no id of the vocabulary");
    }
  }
}

Template read_template(const json& processor, const Vocabulary::Parts& parts) {
  Template result;
  int num_texts = 0;
  for (const json& piece : member(processor, "single")) {
    if (piece.is_object() && piece.contains("Sequence")) {
      ++num_texts;
    } else {
      append_special(member(piece, "SpecialToken"), member(processor, "special_tokens"),
                     num_texts == 0 ? result.prefix : result.suffix, parts);
    }
  }
  if (num_texts != 1) refuse(parts, "post_processor: its template must have the text once");
  return result;
}

int32_t id_of_pair(const json& processor, const char* key, const Vocabulary::Parts& parts) {
  const json& pair = member(processor, key);
  if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_unsigned() ||
      pair[1].get<uint64_t>() >= parts.entries.size()) {
    refuse(parts, std::string("post_processor: '") + key + "' is not a token and its id");
  }
  return pair[1].get<int32_t>();
}

}  // namespace

void read_normalizer(const json& normalizer, Vocabulary::Parts& parts) {
  if (normalizer.is_null()) return;
  const std::string type = text_of(normalizer, "type");
  if (type == "Sequence") {
    for (const json& step : member(normalizer, "normalizers")) read_normalizer(step, parts);
  } else if (type == "NFC") {
    parts.normalizer = Normalizer::kNfc;
  } else {
    refuse(parts, "its normalizer " + type + " is not supported, only NFC and none");
  }
}

void read_added_tokens(const json& added_tokens, const EntryIndex& model_ids,
                       Vocabulary::Parts& parts) {
  if (added_tokens.size() > kMaxAddedTokens) refuse(parts, "more than 2^17 added tokens");
  std::unordered_set<std::string> contents;
  for (const json& json_token : added_tokens) {
    AddedToken token = added_token_of(json_token, parts);
    const std::string where = "added token '" + token.content + "'";
    if (!contents.insert(token.content).second) refuse(parts, where + " stands there twice");
    // Hugging Face's tokenizers give ids again when they load: those of the model, then the next.
    const int32_t model_id = model_ids.find(token.content);
    const auto expected = model_id >= 0 ? model_id : static_cast<int32_t>(parts.entries.size());
    if (token.id != expected) {
      refuse(parts,
             where + " has id " + std::to_string(token.id) + ", but must have " +
                 std::to_string(expected) +
                 (model_id >= 0 ? ", which model.vocab says" : ", the next after those before"));
    }
    if (model_id < 0) parts.entries.push_back(token.content);
    parts.special_tokens.push_back(token.id);
    parts.added_tokens.push_back(std::move(token));
  }
}

// A later processor of a Sequence adds its tokens outside of those of the processors before it.
void read_post_processor(const json& post_processor, Vocabulary::Parts& parts) {
  if (post_processor.is_null()) return;
  const std::string type = text_of(post_processor, "type");
  Template added;
  if (type == "Sequence") {
    for (const json& step : member(post_processor, "processors")) read_post_processor(step, parts);
  } else if (type == "TemplateProcessing") {
    added = read_template(post_processor, parts);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    added = {{id_of_pair(post_processor, "cls", parts)},
             {id_of_pair(post_processor, "sep", parts)}};
  } else if (type != "ByteLevel") {
    refuse(parts, "its post_processor " + type + " is not supported");
  }
  parts.prefix_ids.insert(parts.prefix_ids.begin(), added.prefix.begin(), added.prefix.end());
  parts.suffix_ids.insert(parts.suffix_ids.end(), added.suffix.begin(), added.suffix.end());
}

void check_decoder(const json& decoder, const Vocabulary::Parts& parts) {
  if (decoder.is_null()) return;
  const std::string type = text_of(decoder, "type");
  if (type == "Sequence") {
    for (const json& step : member(decoder, "decoders")) check_decoder(step, parts);
  } else if (type != "ByteLevel") {
    refuse(parts, "its decoder " + type + " is not supported, only ByteLevel");
  }
}

}  // namespace weft
