// JSON that ends the stack of whoever copies it.
#pragma once

#include <cstddef>
#include <string>

namespace weft {

// With what makes a list of members grow: its values are copied then.
inline std::string nested_json(size_t depth) {
  std::string text = "{\"a\":1,\"deep\":";
  for (size_t i = 0; i < depth; ++i) text += "{\"a\":";
  text.append("1").append(depth, '}');
  for (int i = 0; i < 20; ++i) text += ",\"b" + std::to_string(i) + "\":1";
  return text + "}";
}

}  // namespace weft
