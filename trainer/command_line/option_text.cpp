#include "trainer/command_line/option_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "trainer/command_line/options.h"

namespace weft {

namespace {

// These spell values as Python does: True, None, 1e-05, [1, 2].
template <typename Real>
std::string python_float(Real value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

template <typename T>
std::string python_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "True" : "False";
  else if constexpr (std::is_floating_point_v<T>)
    return python_float(value);
  else if constexpr (std::is_enum_v<T>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, std::string>)
    return value.empty() ? "None" : value;
  else
    return fmt::format("{}", value);
}
template <typename T>
std::string python_text(const std::optional<T>& value) {
  return value ? python_text(*value) : "None";
}
template <typename T>
std::string python_text(const std::vector<T>& values) {
  if (values.empty()) return "None";
  std::string text;
  for (const T& value : values) {
    const std::string quote = std::is_same_v<T, std::string> ? "'" : "";
    text += (text.empty() ? "" : ", ") + quote + python_text(value) + quote;
  }
  return "[" + text + "]";
}

class ToText {
 public:
  void group(const char*) {}
  template <typename T>
  void operator()(const std::string& name, const T& value, ChangeEffect, const char*) {
    values.emplace_back(snake_case(name), python_text(value));
  }
  std::vector<std::pair<std::string, std::string>> values;
};

class ToJson {
 public:
  void group(const char*) {}
  template <typename T>
  void operator()(const std::string& name, const T& value, ChangeEffect, const char*) {
    object[snake_case(name)] = json_value(value);
  }
  nlohmann::json object = nlohmann::json::object();

 private:
  template <typename T>
  static nlohmann::json json_value(const T& value) {
    if constexpr (std::is_enum_v<T>) return name_of(value);
    // The nearest double of the float 0.9 prints as 0.8999999761581421. The shortest text that
    // reads back as the float is the one that was typed.
    else if constexpr (std::is_same_v<T, float>)
      return nlohmann::json::parse(fmt::format("{}", value));
    else if constexpr (std::is_same_v<T, std::string>)
      return value.empty() ? nlohmann::json() : nlohmann::json(value);
    else
      return value;
  }
  template <typename T>
  static nlohmann::json json_value(const std::optional<T>& value) {
    return value ? json_value(*value) : nlohmann::json();
  }
};

}  // namespace

std::string snake_case(std::string flag) {
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

std::vector<std::pair<std::string, std::string>> resolved_options(const Config& config) {
  ToText visitor;
  visit_options(config, visitor);
  std::sort(visitor.values.begin(), visitor.values.end());
  return visitor.values;
}

std::string resolved_json(const Config& config) {
  ToJson visitor;
  visit_options(config, visitor);
  // JSON cannot hold a path that is not UTF-8; such bytes are replaced, which is no reason to stop.
  return visitor.object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace weft
