// Where a document says that it is from: the domain of its address, or the name of the corpus.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "indexed_dataset/pair/sources_layout.h"

namespace weft {

// At most 32 bytes of valid UTF-8 without a zero byte, padded with zeros; empty: not known.
struct Origin {
  std::array<char, kOriginBytes> bytes{};

  std::string_view view() const;
  bool is_empty() const { return bytes[0] == '\0'; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

// Whether the bytes are such: in a file they may be anything.
bool is_valid(const Origin& origin);

// The origin that a string names; `value` is valid UTF-8. White space and control characters around
// it are left out. Of an address (scheme://) it is the host in lower case (ASCII; others stay),
// without user, port, dots at its end and a leading "www."; "file://" and such without a host.
// Otherwise the string, up to a zero byte.
//
// What does not fit is cut between characters and marked by an ellipsis (U+2026): a host keeps its
// end, which is the part that was registered, anything else its beginning.
Origin origin_of(std::string_view value);

}  // namespace weft
