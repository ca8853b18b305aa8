#include "preprocess/vocabulary/load_vocabulary.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "tokenizer/split/simd.h"

namespace weft {
namespace {

std::string read_vocabulary_file(const std::string& path) {
  try {
    return read_text_file(path);
  } catch (const std::system_error& error) {
    const bool is_no_file = error.code() == std::errc::invalid_argument;
    throw std::system_error(error.code(),
                            path + ": cannot read the vocabulary" +
                                (is_no_file ? " from a pipe or a device, only from a file"
                                            : "; give GPT-2's vocab.json and merges.txt"));
  }
}

std::string read_tokenizer_file(const std::string& path) {
  if (std::filesystem::is_regular_file(path) &&
      std::filesystem::file_size(path) > kMaxTokenizerBytes) {
    throw std::runtime_error(path + ": larger than " + std::to_string(kMaxTokenizerBytes >> 20) +
                             " MiB, which no tokenizer is");
  }
  return read_regular_file(path);
}

}  // namespace

std::optional<TokenizerFiles> find_tokenizer_files(const TokenizerFiles& given) {
  if (!given.empty()) return given;
  const auto files_in = [](const std::filesystem::path& folder) -> std::optional<TokenizerFiles> {
    TokenizerFiles files = gpt2_files(folder / "vocab.json", folder / "merges.txt");
    std::error_code ignored;
    for (const TokenizerFile& file : files.files) {
      if (!std::filesystem::exists(file.path, ignored)) return std::nullopt;
    }
    return files;
  };
  if (const char* folder = std::getenv("WEFT_GPT2_DIR"); folder && *folder) {
    // A mistyped folder must not mean another vocabulary, and so other tokens.
    if (auto files = files_in(folder)) return files;
    throw UsageError(std::string("WEFT_GPT2_DIR is ") + folder +
                     ", which holds no vocab.json and merges.txt; correct it or unset it");
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return std::nullopt;
  return files_in(std::filesystem::path(home) / ".cache/weft/gpt2");
}

std::shared_ptr<const Vocabulary> load_vocabulary(const TokenizerFiles& files) {
  as_usage(chosen_simd);
  if (!is_gpt2(files)) {
    const std::string& path = files.files.at(0).path;
    const std::string bytes = read_tokenizer_file(path);
    return load_tokenizer(
        {path, bytes}, {.sha256 = sha256_of(bytes), .tiktoken_pattern = tiktoken_pattern(files)});
  }
  const std::string &vocab_json = files.files.at(0).path, &merges_txt = files.files.at(1).path;
  const std::string entries = read_vocabulary_file(vocab_json);
  const std::string merges = read_vocabulary_file(merges_txt);
  return load_gpt2({vocab_json, entries}, {merges_txt, merges});
}

int32_t resolve_end_of_document(const Vocabulary& vocabulary, const std::string& given) {
  if (given.empty()) {
    try {
      return vocabulary.end_of_document();
    } catch (const std::runtime_error& error) {
      throw UsageError(std::string(error.what()) +
                       "; name one with --eod-token, or leave --append-eod out");
    }
  }
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.bytes(id) == given) return id;
  }
  const auto id = parse_int64(given);
  if (id && *id >= 0 && *id < vocabulary.size()) return static_cast<int32_t>(*id);
  throw UsageError("--eod-token: '" + given +
                   "' is neither an entry of the tokenizer nor an id below " +
                   std::to_string(vocabulary.size()));
}

}  // namespace weft
