// The options that say which tokenizer is meant: Weft's --tokenizer, and those of Megatron-LM.
#pragma once

#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"

namespace weft {

// Megatron-LM's --tokenizer-type; PretrainedFromHF is Megatron-DeepSpeed's name.
enum class TokenizerType { kAuto, kGpt2, kHuggingFace, kPretrainedFromHf, kTikTokenizer };

struct VocabularyOptions {
  TokenizerType type = TokenizerType::kAuto;
  std::string tokenizer, tokenizer_model, tokenizer_name_or_path;
  std::string vocab_file, merge_file;
  std::string tiktoken_pattern;
  int64_t num_special_tokens = kDefaultSpecialTokens, vocab_size = kDefaultVocabSize;

  // `otherwise`: where the vocabulary comes from without these options.
  void declare(OptionSet& options, const std::string& otherwise);
  void validate(OptionSet& options) const;

  bool are_given() const { return !named().empty() || !vocab_file.empty(); }
  // No files if none are given. Throws as find_tokenizer(), and UsageError if they are
  // none of the type that is asked for.
  TokenizerFiles files() const;

 private:
  // Megatron-LM's; with others the tokenizer is another one.
  static constexpr int64_t kDefaultSpecialTokens = 1000, kDefaultVocabSize = 131072;
  bool has_default_numbers() const {
    return num_special_tokens == kDefaultSpecialTokens && vocab_size == kDefaultVocabSize;
  }
  // The value of --tokenizer, --tokenizer-model or --tokenizer-name-or-path; "" without them.
  const std::string& named() const;
};

}  // namespace weft
