// How many tokens the dataset's tokenizer knows. The trainer does not tokenize: it only counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/config/config.h"

namespace weft {

struct VocabularySize {
  int64_t num_tokens = 0;
  std::string source;  // where the number comes from, for the log: "--vocab-size", a path
  // The end-of-document token: the last one, as GPT-2 numbers it (50256 of 50257).
  int32_t end_of_document_id() const { return static_cast<int32_t>(num_tokens - 1); }
};

// The first of: --vocab-size; the entries of --vocab-file; "vocabulary": {"size"} of the dataset's
// PREFIX.manifest.json, which weft-data writes; vocab.json in
// vocabulary_folder(). Throws std::invalid_argument if there is none, std::runtime_error for a file
// that is no vocabulary, std::system_error if it cannot be read.
VocabularySize find_vocabulary_size(const Config& config);

// Where GPT-2's files lie unless given: $WEFT_GPT2_DIR where that is set, and then nowhere else (a
// mistyped name must not mean another vocabulary); else ~/.cache/weft/gpt2.
std::filesystem::path vocabulary_folder();

// The entries of a vocab.json. Throws std::runtime_error for a file that is no vocabulary.
int64_t count_vocabulary(const std::filesystem::path& vocab_file);

// The dataset's prefix: --data-path without a leading weight and without .bin or .idx.
std::string dataset_prefix(const Config& config);

}  // namespace weft
