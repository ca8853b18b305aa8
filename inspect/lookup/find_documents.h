// Finds the documents that are meant by a text that they hold.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "indexed_dataset/pair/reader.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Returns the documents whose text holds `text`, byte for byte, ascending. Reads all tokens, on several
// threads.
std::vector<int64_t> documents_with(const DatasetReader& reader, const Vocabulary& vocabulary,
                                    std::string_view text, int num_threads);

}  // namespace weft
