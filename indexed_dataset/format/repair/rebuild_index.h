// Makes an .idx anew: from the tokens that end documents, or from what is left of a damaged one.
//
// An .idx says everything twice except the document bounds: a length is the difference of two
// offsets, and where every document is one sequence the bounds are the numbers 0 to S. So a flipped
// bit, a damaged block of lengths or offsets, a damaged header, and a lost end can be mended. The
// caller has to prove the result, by a checksum or by counts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/repair/index_draft.h"

namespace weft {

// Adds the documents of a .bin in which each ends with `end_of_document`, which is part of it. False
// if the file does not end with it, is no whole number of tokens, or a document has over 2^31
// tokens. Reads the file in parallel. Throws std::system_error.
bool add_lengths_by_end_of_document(const std::filesystem::path& bin, TokenType type,
                                    int64_t end_of_document, int num_threads, IndexDraft& draft);

// Returns the last token of a .bin; nothing if it holds none.
std::optional<int64_t> last_token(const std::filesystem::path& bin, TokenType type);

// Counts that are known without the .idx; -1: not known.
struct ExpectedCounts {
  int64_t num_documents = -1, num_tokens = -1;
};

// Writes indexes that agree with themselves, with the size of .bin and with what is expected, made
// from the bytes of a damaged one, to `draft`, the likeliest first, until `accept` returns true, which
// is then the result. Without `has_bounds` only the lengths are there: the bounds cannot be told.
// False if too much is gone.
bool mend_index(std::span<const std::byte> damaged, int64_t bin_bytes,
                const ExpectedCounts& expected, IndexDraft& draft,
                const std::function<bool(bool has_bounds)>& accept);

}  // namespace weft
