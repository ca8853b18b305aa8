// The patterns that tokenizer files name, as the splitters know them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "tokenizer/split/split_patterns.h"

namespace weft {

// A name for people and manifests: "llama3".
std::string_view name_of(SplitKind kind);

// The pattern of tokenizer.json's `pre_tokenizer`, which Oniguruma reads. Throws
// std::runtime_error, which prints it, if it is not known as a whole: ids would differ otherwise.
SplitKind pattern_of_pre_tokenizer(const nlohmann::json& pre_tokenizer, const std::string& file);

// True if it is the regular expression of SplitKind::kTekken.
bool is_tekken_pattern(std::string_view regex);

}  // namespace weft
