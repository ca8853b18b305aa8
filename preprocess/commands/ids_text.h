// Token ids as text: what `encode` prints and `decode` reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "indexed_dataset/base/terminal/option_set.h"
#include "preprocess/web/fetch_options.h"
#include "tokenizer/tokenizer.h"

namespace weft {

// kPlain: numbers with white space between them. kJsonl: a JSON array of numbers a line, one for
// each document.
enum class IdsFormat { kPlain, kJsonl };

// The option --special.
void declare_special_tokens(OptionSet& options, SpecialTokens& special_tokens);

// The decompressed content of an input; "-" is standard input. Throws StoppedBySignal.
std::string read_input(const std::string& input, const HttpOptions& http = {});

// Reads numbers with white space between them. Throws std::runtime_error for anything else, and for
// numbers that are no ids of the vocabulary; `input` is where they are from.
std::vector<int32_t> parse_ids(const std::string& text, const std::string& input,
                               int32_t vocabulary_size);

}  // namespace weft
