#include "tokenizer/formats/load_tokenizer_json.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats/end_of_document.h"
#include "tokenizer/formats/entry_index.h"
#include "tokenizer/formats/json_members.h"
#include "tokenizer/formats/json_stream.h"
#include "tokenizer/formats/known_patterns.h"
#include "tokenizer/formats/tokenizer_json_model.h"
#include "tokenizer/formats/tokenizer_json_text.h"

namespace weft {
namespace {

using nlohmann::json;

// Older files do not say it.
std::string type_of_model(const json& model, size_t num_merges) {
  const std::string type = text_of(model, "type");
  if (!type.empty() || num_merges > 0) return type.empty() ? "BPE" : type;
  if (member(model, "vocab").is_array()) return "Unigram";
  return model.contains("max_input_chars_per_word") ? "WordPiece" : "BPE";
}

void check_model(const json& model, size_t num_merges, const std::string& file) {
  const auto refuse = [&](const std::string& what) {
    throw std::runtime_error(
        file + ": " + what +
        " is not supported: only byte-level BPE is, as GPT-2, Llama-3, Qwen and "
        "most models since have it");
  };
  const std::string type = type_of_model(model, num_merges);
  if (type != "BPE") refuse("a model of type " + type);
  if (flag_of(model, "byte_fallback", false)) refuse("byte_fallback (a SentencePiece model's)");
  for (const char* key : {"end_of_word_suffix", "continuing_subword_prefix"}) {
    if (const std::string text = text_of(model, key); !text.empty())
      refuse(std::string(key) + " '" + text + "'");
  }
  const json& dropout = member(model, "dropout");
  if (dropout.is_number() && dropout.get<double>() != 0)
    refuse("dropout, which gives other ids each time,");
}

// Fills in the entries of the model and the bytes. A text in characters that stand for no byte is
// an entry that no text gives.
void add_entries(const std::vector<std::string_view>& texts, bool ignores_merges,
                 Vocabulary::Parts& parts) {
  parts.entries.reserve(texts.size());
  for (const std::string_view text : texts) {
    const auto id = static_cast<int32_t>(parts.entries.size());
    std::optional<std::string> bytes = from_printable(text);
    if (!bytes) {
      parts.entries.emplace_back(text);
      continue;
    }
    if (bytes->size() == 1) parts.merge_table.set_byte(static_cast<uint8_t>(bytes->front()), id);
    if (ignores_merges) parts.whole_pieces.push_back(id);
    parts.merge_table.add_entry(*bytes);
    parts.entries.push_back(std::move(*bytes));
  }
}

// With unk_token, a byte without an entry is that token.
void check_unknown_token(const json& model, const Vocabulary::Parts& parts) {
  const std::string unknown = text_of(model, "unk_token");
  for (int byte = 0; byte < 256 && !unknown.empty(); ++byte) {
    if (parts.merge_table.byte_id(static_cast<uint8_t>(byte)) != MergeTable::kNoByte) continue;
    throw std::runtime_error(parts.name + ": it gives unk_token '" + unknown + "' for byte " +
                             std::to_string(byte) +
                             ", which has no entry; unknown tokens are not supported");
  }
}

}  // namespace

std::shared_ptr<const Vocabulary> load_tokenizer_json(const NamedBytes& file,
                                                      const LoadOptions& options) {
  VocabSink vocab(file.name);
  MergesSink merges(file.name);
  const json root =
      parse_json_stream(file, {{"model.vocab", false, &vocab}, {"model.merges", true, &merges}});
  const json& model = member(root, "model");
  check_model(model, merges.size(), file.name);
  const SplitKind pattern = pattern_of_pre_tokenizer(member(root, "pre_tokenizer"), file.name);

  Vocabulary::Parts parts = {.name = file.name,
                             .entries = {},
                             .merges = {},
                             .merge_table = MergeTable(merges.size()),
                             .pattern = make_split_pattern(pattern, options.unicode),
                             .pattern_name = std::string(name_of(pattern))};
  read_normalizer(member(root, "normalizer"), parts);
  check_decoder(member(root, "decoder"), parts);
  const std::vector<std::string_view> texts = vocab.texts_by_id();
  const EntryIndex ids = index_entries(texts, file.name);
  add_entries(texts, flag_of(model, "ignore_merges", false), parts);
  check_unknown_token(model, parts);
  merges.add_to(parts, ids);
  read_added_tokens(member(root, "added_tokens"), ids, parts);
  read_post_processor(member(root, "post_processor"), parts);
  parts.end_of_document = find_end_of_document(parts);
  return std::make_shared<const Vocabulary>(std::move(parts));
}

}  // namespace weft
