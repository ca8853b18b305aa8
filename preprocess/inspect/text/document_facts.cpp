#include "preprocess/inspect/text/document_facts.h"

#include <algorithm>

namespace weft {

AsciiPiece::AsciiPiece(std::string_view ascii)
    : num_bytes(static_cast<uint32_t>(ascii.size())),
      num_repeated(0),
      first(ascii.empty() ? '\0' : ascii.front()),
      second_last(ascii.size() < 2 ? '\0' : ascii[ascii.size() - 2]),
      last(ascii.empty() ? '\0' : ascii.back()) {
  for (size_t i = 1; i + 1 < ascii.size(); ++i) num_repeated += ascii[i] == ascii[i - 1];
}

TokenTexts::TokenTexts(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& bytes = vocabulary.bytes(id);
    const bool is_ascii = std::all_of(bytes.begin(), bytes.end(),
                                      [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
    pieces_.emplace_back(is_ascii ? std::string_view(bytes) : std::string_view());
  }
}

int64_t TokenTexts::add_to(RepeatedCharacters& characters, std::span<const int32_t> ids) const {
  int64_t num_bytes = 0;
  for (const int32_t id : ids) {
    if (static_cast<uint32_t>(id) >= pieces_.size()) continue;
    const AsciiPiece& piece = pieces_[static_cast<size_t>(id)];
    if (piece.num_bytes > 0) {
      characters.add(piece);
      num_bytes += piece.num_bytes;
    } else {
      const std::string& bytes = vocabulary_.bytes(id);
      characters.add(bytes);
      num_bytes += std::ssize(bytes);
    }
  }
  return num_bytes;
}

void RepeatedRuns::begin(uint64_t seed) {
  seed_ = (seed + 1) * 0x9E3779B97F4A7C15;
  num_seen_ = num_repeated_ = 0;
}

void RepeatedRuns::add(std::span<const int32_t> ids) {
  constexpr uint64_t kMultiplier = 0xD6E8FEB86659FD93;
  auto [first, second, third] = before_;
  for (const int32_t id : ids) {
    const auto fourth = static_cast<uint64_t>(static_cast<uint32_t>(id));
    if (++num_seen_ >= 4) {
      uint64_t key = first;
      for (const uint64_t next : {second, third, fourth})
        key = (key ^ key >> 32) * kMultiplier + next;
      key = (key ^ key >> 29) * kMultiplier;
      // The place follows from the run alone, so that what a document is found to repeat does not
      // depend on its seed. The seed tells the runs of this document from those that others have
      // left.
      uint64_t& place = places_[key >> (64 - kPlaceBits)];
      num_repeated_ += place == key + seed_;
      place = key + seed_;
    }
    first = second;
    second = third;
    third = fourth;
  }
  before_ = {first, second, third};
}

}  // namespace weft
