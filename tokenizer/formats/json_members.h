// Members of JSON objects that may be missing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace weft {

// null if it is missing, or `object` is no object.
inline const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  static const nlohmann::json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

// "" if it is missing or no text.
inline std::string text_of(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

inline bool flag_of(const nlohmann::json& object, const char* key, bool default_value) {
  const nlohmann::json& value = member(object, key);
  return value.is_boolean() ? value.get<bool>() : default_value;
}

// -1 if it is missing or no number below 2^31.
inline int32_t id_of(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = member(object, key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT32_MAX) return -1;
  return value.get<int32_t>();
}

}  // namespace weft
