// The vocabularies of the tokenizer's tests: the shipped small one, and GPT-2's where WEFT_GPT2_DIR
// names it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/tokenizer/load_files.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace weft::test {

inline std::filesystem::path golden_folder() {
  const char* source_dir = std::getenv("WEFT_SOURCE_DIR");
  if (source_dir == nullptr)
    throw std::runtime_error("WEFT_SOURCE_DIR is not set: run the tests with ctest");
  return std::filesystem::path(source_dir) / "tests/golden/tokenizer";
}

inline std::shared_ptr<const Vocabulary> small_vocabulary() {
  static const auto vocabulary = test::load_gpt2_files(golden_folder() / "small_vocab.json",
                                                       golden_folder() / "small_merges.txt");
  return vocabulary;
}

// Null without WEFT_GPT2_DIR.
inline std::shared_ptr<const Vocabulary> gpt2_vocabulary() {
  const char* folder = std::getenv("WEFT_GPT2_DIR");
  if (folder == nullptr || *folder == 0) return nullptr;
  static const auto vocabulary = test::load_gpt2_files(
      std::filesystem::path(folder) / "vocab.json", std::filesystem::path(folder) / "merges.txt");
  return vocabulary;
}

// Those that there are.
inline std::vector<std::shared_ptr<const Vocabulary>> vocabularies() {
  std::vector<std::shared_ptr<const Vocabulary>> result = {small_vocabulary()};
  if (const auto gpt2 = gpt2_vocabulary()) result.push_back(gpt2);
  return result;
}

inline std::vector<int32_t> encode(Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

}  // namespace weft::test
