// Reads Mistral's tekken.json: {"config": {...}, "vocab": [{"rank", "token_bytes", ...}, ...]},
// and the list alone, as Megatron-LM's TikTokenizer has it.
#pragma once

#include <memory>

#include "tokenizer/formats/load_options.h"
#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Only the first ranks count: as many as leave room for the special tokens, which have the first
// ids and are never found in a text. Throws as load_tokenizer does.
std::shared_ptr<const Vocabulary> load_tekken(const NamedBytes& file, const LoadOptions& options);

// The list does not say its pattern, nor how many ids are special tokens and how many there are:
// options.tiktoken_pattern does. Special tokens have the first ids: <unk>, <s>, </s>, <mask>,
// <pad>, <cls>, <sep>, and <SPECIAL_7> and so on. Documents end with </s>.
std::shared_ptr<const Vocabulary> load_megatron_ranks(const NamedBytes& file,
                                                      const LoadOptions& options);

}  // namespace weft
