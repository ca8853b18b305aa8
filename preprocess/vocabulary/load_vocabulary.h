// Finds the files of a tokenizer where they usually lie, and reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Returns the given files, unchecked; else GPT-2's in $WEFT_GPT2_DIR if that is set
// (UsageError if it lacks them); else those in ~/.cache/weft/gpt2. Returns nothing if
// there are none.
std::optional<TokenizerFiles> find_tokenizer_files(const TokenizerFiles& given);

// Reads the vocabulary. Throws std::system_error if a file cannot be read, and what the loader of
// the kind throws (load_gpt2.h, load_tokenizer.h).
std::shared_ptr<const Vocabulary> load_vocabulary(const TokenizerFiles& files);

// The token that ends documents: the entry that is spelled like `given`, or else the one with that
// id; the vocabulary's own if nothing is given. Throws UsageError if there is none.
int32_t resolve_end_of_document(const Vocabulary& vocabulary, const std::string& given);

}  // namespace weft
