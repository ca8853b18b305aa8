// Finds the documents of a .bin by the token that ends each of them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/repair/index_draft.h"

namespace weft {

// Adds the documents of a .bin in which each ends with `end_of_document`, which is part of it.
// False if the file does not end with it, is no whole number of tokens, or a document has over 2^31
// tokens. Reads the file in parallel. Throws std::system_error.
bool add_lengths_by_end_of_document(const std::filesystem::path& bin, TokenType type,
                                    int64_t end_of_document, int num_threads, IndexDraft& draft);

}  // namespace weft
