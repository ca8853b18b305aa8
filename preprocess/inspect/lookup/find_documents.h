// Finds the documents that are meant by a text that they hold.
#pragma once

#include <cstdint>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"
#include "preprocess/inspect/text/text_pattern.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Returns the documents whose text holds a match, ascending. Reads all tokens, on several threads.
// With a regular expression each thread keeps the text of a whole document, as a match may be as
// long.
std::vector<int64_t> documents_with(const DatasetReader& reader, const Vocabulary& vocabulary,
                                    const TextPattern& pattern, int num_threads);

}  // namespace weft
