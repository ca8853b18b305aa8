// Reads a vocabulary in GPT-2's format: vocab.json and merges.txt.
#pragma once

#include <memory>

#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Checks both: every byte has an entry, ids are 0..size-1 without gap, each merge joins two entries
// into an entry, and every entry is a byte, made by a merge, or a special token, which is written
// <...> or [...]. Throws std::runtime_error naming file, line and reason. Any size up to
// 2^24 ids; GPT-2's has 256 bytes, 50000 merges and `<|endoftext|>`.
std::shared_ptr<const Vocabulary> load_gpt2(const NamedBytes& vocab_json,
                                            const NamedBytes& merges_txt);

}  // namespace weft
