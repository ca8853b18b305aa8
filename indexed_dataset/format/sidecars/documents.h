// Walks over the documents of a dataset, whose reader knows only sequences.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/format/pair/reader.h"

namespace weft {

// The documents of a dataset as ranges of sequences; in old files without bounds a sequence is one.
// All members that take a document throw std::runtime_error where the index is damaged.
// Thread-safe.
class Documents {
 public:
  explicit Documents(const DatasetReader& reader)
      : reader_(reader), has_bounds_(reader.num_documents() > 0 || reader.num_sequences() == 0) {}

  int64_t count() const { return has_bounds_ ? reader_.num_documents() : reader_.num_sequences(); }
  // The first sequence of document i, and the one behind its last.
  std::pair<int64_t, int64_t> sequences(int64_t i) const;
  int64_t num_tokens(int64_t i) const;
  // The last token of document i; -1 if it is empty.
  int32_t last_token(int64_t i) const;
  // The first `max_tokens` tokens of document i.
  std::vector<int32_t> first_tokens(int64_t i, int64_t max_tokens) const;
  // Calls use(ids) for the document's first `max_tokens` tokens, in pieces.
  template <typename Use>
  void for_each_piece(int64_t i, std::vector<int32_t>& ids, int64_t max_tokens,
                      const Use& use) const {
    const auto [first, last] = sequences(i);
    for (int64_t k = first; k < last; ++k) {
      for (int64_t at = 0; at < reader_.length(k) && max_tokens > 0;) {
        const int64_t count = std::min({kPieceTokens, reader_.length(k) - at, max_tokens});
        ids.resize(static_cast<size_t>(count));
        reader_.copy_tokens(k, at, count, ids.data());
        use(std::span<const int32_t>(ids));
        at += count;
        max_tokens -= count;
      }
    }
  }

 private:
  // So many tokens at a time, with their text, take a thread less than 2 MB.
  static constexpr int64_t kPieceTokens = 1 << 16;

  [[noreturn]] void throw_damaged(const std::string& what) const;

  const DatasetReader& reader_;
  bool has_bounds_;
};

}  // namespace weft
