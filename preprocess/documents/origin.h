// Says where a document is from: the domain of its address, or the name of the corpus; and under
// which keys lines of JSON name it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/documents/key_path.h"

namespace weft {

// Longer strings are looked at up to here only. A host has at most 253 bytes.
constexpr size_t kMaxOriginTextBytes = 4096;

// The origin that a string names; `value` is valid UTF-8. White space and control characters around
// it are left out. For an address (scheme://) it is the host in lower case (ASCII; others stay),
// without user, port, dots at its end and a leading "www."; "file://" and such without a host.
// Otherwise the string, up to a zero byte.
//
// A text that does not fit is cut between characters and marked by an ellipsis (U+2026): a host
// keeps its end, which is the part that was registered, anything else its beginning.
Origin origin_of(std::string_view value);

// The places where corpora have it, in the order in which --origin-key auto looks: an address
// first, the name of a corpus or a part of it where there is none.
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

// Says that no origin is wanted.
inline constexpr std::string_view kNoOriginKey = "none";

// The paths that --origin-key means: "auto", "none", or a path (key_path.h). Throws
// UsageError for anything else.
std::vector<KeyPath> origin_paths(std::string_view origin_key);

}  // namespace weft
