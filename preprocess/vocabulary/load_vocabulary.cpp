#include "preprocess/vocabulary/load_vocabulary.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/storage/text_file.h"
#include "tokenizer/formats/load_gpt2.h"

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
    throw std::invalid_argument(
        std::string("WEFT_GPT2_DIR is ") + folder +
        ", which holds no vocab.json and merges.txt; correct it or unset it");
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return std::nullopt;
  return files_in(std::filesystem::path(home) / ".cache/weft/gpt2");
}

std::shared_ptr<const Vocabulary> load_vocabulary(const TokenizerFiles& files) {
  const std::string &vocab_json = files.files.at(0).path, &merges_txt = files.files.at(1).path;
  const std::string entries = read_vocabulary_file(vocab_json);
  const std::string merges = read_vocabulary_file(merges_txt);
  return load_gpt2({vocab_json, entries}, {merges_txt, merges});
}

}  // namespace weft
