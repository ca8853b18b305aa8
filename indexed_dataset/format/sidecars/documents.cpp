#include "indexed_dataset/format/sidecars/documents.h"

#include <stdexcept>

namespace weft {

int64_t Documents::num_tokens(int64_t i) const {
  int64_t sum = 0;
  const auto [first, last] = sequences(i);
  for (int64_t k = first; k < last; ++k) {
    if (reader_.length(k) < 0) throw_damaged("length of sequence " + std::to_string(k));
    sum += reader_.length(k);
  }
  return sum;
}

int32_t Documents::last_token(int64_t i) const {
  const auto [first, last] = sequences(i);
  int32_t id = -1;
  for (int64_t k = last; k-- > first && id < 0;) {
    if (reader_.length(k) > 0) reader_.copy_tokens(k, reader_.length(k) - 1, 1, &id);
  }
  return id;
}

std::vector<int32_t> Documents::first_tokens(int64_t i, int64_t max_tokens) const {
  std::vector<int32_t> tokens, piece_ids;
  for_each_piece(i, piece_ids, max_tokens, [&](std::span<const int32_t> piece) {
    tokens.insert(tokens.end(), piece.begin(), piece.end());
  });
  return tokens;
}

std::pair<int64_t, int64_t> Documents::sequences(int64_t i) const {
  if (!has_bounds_) return {i, i + 1};
  const int64_t first = reader_.document_bound(i), last = reader_.document_bound(i + 1);
  if (first < 0 || last < first || last > reader_.num_sequences())
    throw_damaged("document bound " + std::to_string(i + 1));
  return {first, last};
}

void Documents::throw_damaged(const std::string& what) const {
  throw std::runtime_error(reader_.prefix().string() + ".idx: " + what +
                           " is impossible: the index is damaged (weft-data verify)");
}

}  // namespace weft
