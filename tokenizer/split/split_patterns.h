// Makes the pattern of a known family of tokenizers.
#pragma once

#include <memory>

#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/split/simd.h"
#include "tokenizer/split/split_pattern.h"
#include "tokenizer/unicode/unicode_version.h"

namespace weft {

// One pattern for all threads. `\p{..}` and `\s` are those of `version`, of which only kGpt2 has
// more than one: std::invalid_argument for others. This processor must have the instructions.
std::shared_ptr<const SplitPattern> make_split_pattern(SplitKind kind,
                                                       UnicodeVersion version = UnicodeVersion::k16,
                                                       Simd simd = chosen_simd());

}  // namespace weft
