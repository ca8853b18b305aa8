// Reads integers from JSON that other programs may have written, or that is damaged.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft {

struct NotAnInteger : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns whether the value is an integer that an int64_t holds. get<int64_t>() of the library
// would cut off a fraction and wrap a larger integer, and its conversion of 1e300 is undefined.
template <typename Json>
bool is_json_integer(const Json& json) {
  return json.is_number_unsigned() ? json.template get<uint64_t>() <= uint64_t{INT64_MAX}
                                   : json.is_number_integer();
}

// Returns the value of such an integer. Throws NotAnInteger for anything else.
template <typename Json>
int64_t json_integer(const Json& json) {
  if (is_json_integer(json)) return json.template get<int64_t>();
  throw NotAnInteger(
      "an integer was expected, not " +
      (json.is_number() ? json.dump() : "a value of type " + std::string(json.type_name())));
}

// Returns the integer that `object` has under `name`, and says the name in the error. Throws as
// json_integer() does, and what at() throws where there is none.
template <typename Json>
int64_t json_integer_at(const Json& object, const char* name) {
  try {
    return json_integer(object.at(name));
  } catch (const NotAnInteger& error) {
    throw NotAnInteger("\"" + std::string(name) + "\": " + error.what());
  }
}

// Like json_integer_at(), but returns nothing where the member is absent or null.
template <typename Json>
std::optional<int64_t> find_json_integer(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return json_integer_at(object, name);
}

// Returns the integers of the array that `object` has under `name`. Throws as json_integer_at()
// does, and for anything but an array.
template <typename Json>
std::vector<int64_t> json_integers_at(const Json& object, const char* name) {
  const Json& array = object.at(name);
  try {
    if (!array.is_array())
      throw NotAnInteger("a list of integers was expected, not a value of type " +
                         std::string(array.type_name()));
    std::vector<int64_t> integers;
    for (const auto& json : array) integers.push_back(json_integer(json));
    return integers;
  } catch (const NotAnInteger& error) {
    throw NotAnInteger("\"" + std::string(name) + "\": " + error.what());
  }
}

}  // namespace weft
