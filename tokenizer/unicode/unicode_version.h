// The version of Unicode whose classes (\p{L}, \p{N}, \s, ...) decide where text is cut.
#pragma once

#include <string_view>

namespace weft {

// 16.0 is what tiktoken 0.14 and Hugging Face's tokenizers 0.23 have. 15.0 is for datasets that
// were made with it: it lacks 27 ranges of rare letters and numbers.
enum class UnicodeVersion { k15, k16 };

constexpr std::string_view name_of(UnicodeVersion version) {
  return version == UnicodeVersion::k15 ? "15.0" : "16.0";
}

// The version of composition and decomposition (to_nfc), whatever that of the classes is.
inline constexpr std::string_view kNfcVersion = "9.0";

}  // namespace weft
