// Finds the number of tokens of the dataset's vocabulary. The trainer does not tokenize: it only
// counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/config/config.h"

namespace weft {

struct VocabularySize {
  int64_t num_tokens = 0;
  std::string source;  // the origin of the number, for the log: "--vocab-size" or a path
  // The end-of-document token is the last one, as in GPT-2 (50256 of 50257).
  int32_t end_of_document_id() const { return static_cast<int32_t>(num_tokens - 1); }
};

// Returns the first of these that there is: --vocab-size; the number of entries of --vocab-file;
// "vocabulary": {"size"} of the dataset's PREFIX.manifest.json, which weft-data writes; the number
// of entries of vocab.json in vocabulary_folder(). Throws std::invalid_argument if there is none,
// std::runtime_error for a file that is no vocabulary, std::system_error if it cannot be read.
VocabularySize find_vocabulary_size(const Config& config);

// Returns the folder of GPT-2's files: $WEFT_GPT2_DIR if that is set, even where it does not exist
// (a mistyped name must not mean another vocabulary), else ~/.cache/weft/gpt2.
std::filesystem::path vocabulary_folder();

// Counts the entries of a vocab.json. Throws std::runtime_error for a file that is no vocabulary.
int64_t count_vocabulary(const std::filesystem::path& vocab_file);

// Returns the dataset's prefix: --data-path without a leading weight and without .bin or .idx.
std::string dataset_prefix(const Config& config);

}  // namespace weft
