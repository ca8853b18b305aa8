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

// The same the other way round, as Hugging Face's tokenizers write it. Throws std::invalid_argument
// for the patterns that no pre-tokenizer has (kCl100k, kMegatronV1).
nlohmann::ordered_json pre_tokenizer_of(SplitKind kind);
// The step that turns bytes into the printable alphabet, with GPT-2's pattern or without; also a
// decoder.
nlohmann::ordered_json byte_level_step(bool use_regex);

// The pattern of that name, which a tokenizer.json can have. Throws std::invalid_argument, which
// lists the names.
SplitKind pattern_named(std::string_view name);
// "gpt2, bloom, ...": the patterns that a tokenizer.json can have, for messages.
std::string names_of_patterns();

// True if it is the regular expression of SplitKind::kTekken.
bool is_tekken_pattern(std::string_view regex);

}  // namespace weft
