// Normalization form C of Unicode 9.0, which is what Hugging Face's tokenizers 0.23 compute for
// `"normalizer": {"type": "NFC"}`: characters that are younger than 9.0 are neither composed nor
// reordered.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Returns `text` itself if it is normalized, else a view of `scratch`, which then holds the
// normalized text. Bytes that are not UTF-8 stay as they are and separate what is around them.
std::string_view to_nfc(std::string_view text, std::string& scratch);

}  // namespace weft
