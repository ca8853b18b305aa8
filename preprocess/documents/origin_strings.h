// Finds the string in a line of JSON that says where the document is from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/documents/json_scanner.h"
#include "preprocess/documents/origin.h"

namespace weft {

// Where corpora have it, looked for in this order by --origin-key auto: an address first, the name
// of a corpus or a part of it where there is none.
inline constexpr std::string_view kAutoOriginPaths[] = {
    "url",                           // C4, mC4, FineWeb, CulturaX, RedPajama 2, DCLM, Wikipedia
    "meta.url",                      // RedPajama
    "metadata.url",                  // Dolma
    "warc_headers.warc-target-uri",  // OSCAR
    "meta.warc_headers.warc-target-uri",      // OSCAR at Hugging Face
    "metadata.warc_headers.warc-target-uri",  //
    "metadata.WARC-Target-URI",               // DCLM's pool
    "meta.pile_set_name",                     // The Pile
    "meta.redpajama_set_name",                // SlimPajama
    "source",                                 // Dolma
    "meta.source",                            // RedPajama
    "metadata.source",                        //
};

// No string is wanted.
inline constexpr std::string_view kNoOriginKey = "none";

// What is wrong with an --origin-key, in a sentence; "" if it is one: "auto", "none", or the keys
// from the line's object to the string with dots between them, as in "meta.url"; a dot that is part
// of a key has a backslash before it, and so has a backslash.
std::string problem_of_origin_key(std::string_view origin_key);

// More of a string is not looked at. A host has at most 253 bytes.
constexpr size_t kMaxOriginTextBytes = 4096;

// The strings of one line. Of a key that occurs twice in an object the last one counts, also if it
// is no string, or an object without the rest of the path.
class OriginStrings {
 public:
  // Throws std::invalid_argument for what is no origin key.
  explicit OriginStrings(std::string_view origin_key = kNoOriginKey);

  // For each line: forget(), then for every member of its object find() and note() or read(), then
  // origin().
  void forget() { has_string_ = 0; }
  // The place of a member of the line's object, or of the object at a place; -1: nothing of it is
  // wanted.
  int find(std::string_view key, int parent = 0) const;
  // True if something within the object at this place is wanted.
  bool goes_on(int place) const { return places_[static_cast<size_t>(place)].first_child >= 0; }
  // The member's value is this string, or (null) something else: read by others.
  void note(int place, const JsonString* string);
  // Steps over the value, as JsonScanner::value(), and notes it or what is in it.
  bool read(JsonScanner& scanner, int place);
  // The first by the order of the paths that is not empty, by its first kMaxOriginTextBytes. What the
  // strings point to must still be there.
  Origin origin();

 private:
  // A key of a path, or (the first) the line's object. Those of one object are linked.
  struct Place {
    std::string key;
    int first_child = -1, next_sibling = -1;
    int path_idx = -1;           // of the path that ends here
    uint32_t paths = 0;          // bits of the paths that end here or below
    uint64_t child_lengths = 0;  // bits of the children's lengths: most keys of a line have another
  };
  static constexpr size_t kMaxPaths = 32;

  static uint64_t length_bit(std::string_view key) { return uint64_t{1} << (key.size() & 63); }
  void add_path(std::string_view path);

  std::vector<Place> places_{1};
  std::vector<JsonString> strings_;  // by path
  uint32_t has_string_ = 0;          // bits of paths
  std::string key_buffer_, buffer_;
};

inline int OriginStrings::find(std::string_view key, int parent) const {
  const Place& above = places_[static_cast<size_t>(parent)];
  if ((above.child_lengths & length_bit(key)) == 0) return -1;
  for (int i = above.first_child; i >= 0;) {
    const Place& place = places_[static_cast<size_t>(i)];
    if (place.key == key) return i;
    i = place.next_sibling;
  }
  return -1;
}

}  // namespace weft
