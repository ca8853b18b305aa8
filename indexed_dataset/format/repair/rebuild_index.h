// Makes an .idx from the tokens that end the documents of a .bin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "indexed_dataset/base/process/on_progress.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dtype.h"

namespace weft {

// Writes the .idx of a .bin in which each document is one sequence and ends with `end_of_document`,
// which is part of it, into the empty file `idx`, and syncs it. Returns the number of documents;
// nothing if the .bin does not end with that token, is no whole number of tokens, or a document has
// over 2^31 tokens. Reads the file in parallel; memory does not grow with the number of documents.
// Throws std::system_error.
std::optional<int64_t> rebuild_index(const std::filesystem::path& bin, TokenType type,
                                     int64_t end_of_document, int num_threads, OutputFile& idx,
                                     const OnProgress& on_progress = {});

}  // namespace weft
