// Makes an .idx anew: from the tokens that end documents, or from what is left of a damaged one.
//
// An .idx says everything twice but for the document bounds: a length is the difference of two
// offsets, and where every document is one sequence the bounds are the numbers 0 to S. So a flipped
// bit, a damaged block of lengths or offsets, a damaged header, and a lost end can be mended. What
// the result is worth must be proved by others (a checksum, counts).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "indexed_dataset/pair/dtype.h"

namespace weft {

// 12 bytes of memory a document: repairs are rare, and 10^9 documents still fit a server.
struct RebuiltIndex {
  TokenType type{};
  std::vector<int32_t> lengths;  // of sequences, in tokens
  std::vector<int64_t> bounds;   // starts with 0
};

// Lengths of the documents of a .bin in which each ends with `end_of_document`, which is part of
// it. Nothing if the file does not end with it, is no whole number of tokens, or a document has
// over 2^31 tokens. Reads the file in parallel. Throws std::system_error.
std::optional<std::vector<int32_t>> lengths_by_end_of_document(const std::filesystem::path& bin,
                                                               TokenType type,
                                                               int64_t end_of_document,
                                                               int num_threads);

// The last token of a .bin; nothing if it holds none.
std::optional<int64_t> last_token(const std::filesystem::path& bin, TokenType type);

// Documents of one sequence each, but for the empty ones (ascending numbers), which have none.
// The bounds are empty if the numbers do not fit.
std::vector<int64_t> bounds_with_empty_documents(int64_t num_sequences,
                                                 std::span<const int64_t> empty_documents);

// What is known without the .idx; -1: nothing.
struct ExpectedCounts {
  int64_t num_documents = -1, num_tokens = -1;
};

// Indexes that agree with themselves, with the size of .bin and with what is expected, made from
// the bytes of a damaged one: given to `accept`, the likeliest first, until that returns true,
// which is then the result. Their bounds are empty if only they cannot be told. False if too much
// is gone.
bool mend_index(std::span<const std::byte> damaged, int64_t bin_bytes,
                const ExpectedCounts& expected, const std::function<bool(RebuiltIndex)>& accept);

// Writes and syncs the file. Throws std::system_error.
void write_index(const std::filesystem::path& path, const RebuiltIndex& index);

}  // namespace weft
