// Reads integers from JSON that other programs may have written.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace weft {

// Returns the value of an integer. Throws std::runtime_error for anything else, and for one that T
// cannot hold: the library would convert 1e300, which is undefined.
template <typename T = int64_t, typename Json>
T json_integer(const Json& json) {
  const bool fits =
      json.is_number_unsigned()
          ? json.template get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max())
          : json.is_number_integer() &&
                json.template get<int64_t>() >= std::numeric_limits<T>::min() &&
                json.template get<int64_t>() <= std::numeric_limits<T>::max();
  if (!fits)
    throw std::runtime_error("an integer was expected, not a " + std::string(json.type_name()));
  return json.template get<T>();
}

}  // namespace weft
