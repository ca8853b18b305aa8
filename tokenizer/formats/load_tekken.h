// Reads Mistral's tekken.json: {"config": {...}, "vocab": [{"rank", "token_bytes", ...}, ...]}.
#pragma once

#include <memory>

#include "tokenizer/formats/load_options.h"
#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Only the first ranks count: as many as leave room for the special tokens, which have the first
// ids and are never found in a text. Throws as load_tokenizer does.
std::shared_ptr<const Vocabulary> load_tekken(const NamedBytes& file, const LoadOptions& options);

}  // namespace weft
