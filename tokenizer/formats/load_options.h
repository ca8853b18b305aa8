// The facts about a tokenizer that its files do not hold.
#pragma once

#include <string>

#include "tokenizer/unicode/unicode_version.h"

namespace weft {

struct LoadOptions {
  // A rank file names neither its pattern nor its special tokens. They follow from the SHA-256 of
  // the file (64 lower-case hex digits) if it is a known one, else from the name of a pattern:
  // r50k, p50k, cl100k, o200k, llama3, qwen. Megatron-LM's lists in JSON have v1 or v2, or these
  // with numbers of special tokens and of all ids, "v2,1000,131072", which are the default.
  std::string sha256 = {};
  std::string tiktoken_pattern = {};
  UnicodeVersion unicode = UnicodeVersion::k16;
};

}  // namespace weft
