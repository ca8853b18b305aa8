// The tokenizer that belongs to a model: that of its training data, or one that options name.
#pragma once

#include <memory>
#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "tokenizer/vocabulary.h"
#include "trainer/model_tool/stored_model.h"

namespace weft {

struct TokenizerOptions {
  std::string tokenizer;  // of one file (tokenizer/formats/load_tokenizer.h)
  std::string vocab_file, merge_file;

  bool is_given() const { return !tokenizer.empty() || !vocab_file.empty(); }
  void declare(OptionSet& options);
  void validate(OptionSet& options) const;
};

// Returns the vocabulary of the given files, else of those that the data of a model with `rows`
// words was made with, which `known` names (find_tokenizer_files). Throws UsageError where there
// are none, where they are others than `known`, and where they have more tokens than the model; of
// GPT-2's files that nothing names also where they have fewer.
std::shared_ptr<const Vocabulary> vocabulary_of(const RunVocabulary& known, int64_t rows,
                                                const TokenizerOptions& given);

}  // namespace weft
