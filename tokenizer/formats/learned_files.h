// Writes the files of a tokenizer that was learned here. Callers put the texts into files.
#pragma once

#include <string>

#include "tokenizer/split/split_patterns.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {

// GPT-2's two files, which load_gpt2 reads.
std::string vocab_json_of(const LearnedVocabulary& learned);
std::string merges_txt_of(const LearnedVocabulary& learned);

// A tokenizer.json, which load_tokenizer_json and Hugging Face's tokenizers read: the pattern as
// its pre-tokenizer, no normalizer and no template. Throws std::invalid_argument if no
// pre-tokenizer has the pattern (pre_tokenizer_of).
std::string tokenizer_json_of(const LearnedVocabulary& learned, SplitKind pattern);

}  // namespace weft
