#include "tokenizer/formats/load_tokenizer.h"

#include <stdexcept>
#include <string>

#include "tokenizer/formats/json_stream.h"
#include "tokenizer/formats/load_tekken.h"
#include "tokenizer/formats/load_tiktoken.h"
#include "tokenizer/formats/load_tokenizer_json.h"

namespace weft {
namespace {

// SentencePiece's .model is a protocol buffer: field 1, a list of pieces, comes first.
bool is_sentencepiece(std::string_view bytes) {
  return bytes.starts_with('\n') && bytes.substr(0, 64).find("<unk>") != std::string_view::npos;
}

// Keys of the root by which a format is known, whichever comes first.
bool is_key_of_tekken(std::string_view key) {
  return key == "config" || key == "vocab" || key == "special_tokens" || key == "image" ||
         key == "multimodal" || key == "type" || key == "audio";
}
bool is_key_of_ranked_entry(std::string_view key) {
  return key == "rank" || key == "token_bytes" || key == "token_str";
}
bool is_key_of_tokenizer_json(std::string_view key) {
  return key == "version" || key == "truncation" || key == "padding" || key == "added_tokens" ||
         key == "normalizer" || key == "pre_tokenizer" || key == "post_processor" ||
         key == "decoder" || key == "model";
}

}  // namespace

TokenizerFormat tokenizer_format_of(std::string_view beginning) {
  if (is_rank_file(beginning)) return TokenizerFormat::kTiktoken;
  const std::string key = first_json_key(beginning);
  if (is_key_of_ranked_entry(key)) return TokenizerFormat::kTiktoken;
  if (is_key_of_tekken(key)) return TokenizerFormat::kTekken;
  return is_key_of_tokenizer_json(key) ? TokenizerFormat::kHuggingFace : TokenizerFormat::kUnknown;
}

std::shared_ptr<const Vocabulary> load_tokenizer(const NamedBytes& file,
                                                 const LoadOptions& options) {
  const auto refuse = [&](const std::string& why) -> std::runtime_error {
    return std::runtime_error(file.name + ": " + why);
  };
  if (file.bytes.size() > kMaxTokenizerBytes)
    throw refuse("a file of " + std::to_string(file.bytes.size() >> 20) +
                 " MiB; no tokenizer has more than 256 MiB");
  switch (tokenizer_format_of(file.bytes)) {
    case TokenizerFormat::kTiktoken:
      return is_rank_file(file.bytes) ? load_tiktoken(file, options)
                                      : load_megatron_ranks(file, options);
    case TokenizerFormat::kTekken:
      return load_tekken(file, options);
    case TokenizerFormat::kHuggingFace:
      return load_tokenizer_json(file, options);
    case TokenizerFormat::kUnknown:
      break;
  }
  if (is_sentencepiece(file.bytes)) {
    throw refuse(
        "a SentencePiece model, which is not byte-level BPE and not supported; use a model with a "
        "byte-level tokenizer");
  }
  const std::string key = first_json_key(file.bytes);
  throw refuse(key.empty()
                   ? "not a tokenizer: a tokenizer.json, a tiktoken rank file or a tekken.json is "
                     "expected"
                   : "not a tokenizer.json (its first key is '" + key +
                         "'); GPT-2's vocab.json needs its merges.txt: give --vocab-file and "
                         "--merge-file");
}

}  // namespace weft
