#include "preprocess/documents/key_path.h"

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

KeyPath key_path(std::string_view option, std::string_view text) {
  const auto refuse = [option, text](const std::string& why) {
    throw UsageError(std::string(option) + ": '" + std::string(text) + "' " + why);
  };
  KeyPath keys{""};
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      keys.emplace_back();
      continue;
    }
    const bool is_escape = text[i] == '\\';
    if (is_escape && (++i == text.size() || (text[i] != '.' && text[i] != '\\')))
      refuse(R"(has a \ before neither a dot nor a \; a \ in a key is written \\)");
    keys.back() += text[i];
  }
  if (std::find(keys.begin(), keys.end(), "") != keys.end())
    refuse("has an empty key in it; give keys with dots between them, as in meta.url");
  return keys;
}

KeyPath nested_path(std::string_view json_key, std::string_view option) {
  return json_key.find('.') == json_key.npos ? KeyPath{} : key_path(option, json_key);
}

std::vector<KeyPath> nested_paths(const std::vector<std::string>& json_keys) {
  std::vector<KeyPath> paths;
  for (const std::string& key : json_keys) paths.push_back(nested_path(key));
  return paths;
}

}  // namespace weft
