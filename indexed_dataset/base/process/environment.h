// Variables of the environment as texts.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>

namespace weft {

// "" for a variable that is not set.
inline std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// True for 1, on, yes and true in any case, as Hugging Face's and Amazon's tools read them.
inline bool is_switched_on(const char* name) {
  std::string value = environment_text(name);
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

}  // namespace weft
