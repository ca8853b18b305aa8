// What a tokenizer asks of the pattern by which it cuts text into pieces ("words"), each of which
// is merged on its own. The pattern belongs to the vocabulary; every family of tokenizers has its
// own.
//
// The pieces of a text cover it without gaps, and any bytes are accepted. A virtual call is made
// for a batch of pieces, never for one.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

// Room for this many pieces lets the vector splitters work; with less every call is scalar.
inline constexpr size_t kSplitBatch = 256;

// Immutable and thread-safe.
class SplitPattern {
 public:
  virtual ~SplitPattern() = default;

  // Finds the pieces of `text` from `begin`, which must be the start of the text or the end of one
  // of its pieces. Writes at most `max_pieces` (at least 1) end positions to `ends` (the next piece
  // starts where one ends) and returns their number: 0 only at the end of the text.
  virtual size_t split(std::string_view text, size_t begin, size_t* ends,
                       size_t max_pieces) const = 0;

  // True if `text` may be cut at `at`, between its first byte and its last: the pieces of both
  // parts are those of the whole. May be false where only a longer look could tell.
  virtual bool is_safe_cut(std::string_view text, size_t at) const = 0;
};

}  // namespace weft
