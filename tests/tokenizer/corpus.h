// Texts of the files that WEFT_CORPUS_DIR holds, for tests on real writing.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace weft::test {

// Empty without WEFT_CORPUS_DIR.
inline std::filesystem::path corpus_folder() {
  const char* folder = std::getenv("WEFT_CORPUS_DIR");
  return folder == nullptr ? "" : folder;
}

// The documents of NAME.jsonl.zst. A line that does not parse (lone surrogates) is a text itself.
inline std::vector<std::string> corpus_texts(const std::string& name) {
  const std::string file = (corpus_folder() / (name + ".jsonl.zst")).string();
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("zstd -dcq '" + file + "'").c_str(), "r"),
                                                   pclose);
  if (!pipe) throw std::runtime_error(file + ": cannot be read");
  std::string bytes, chunk(1 << 20, '\0');
  while (const size_t num_read = std::fread(chunk.data(), 1, chunk.size(), pipe.get())) {
    bytes.append(chunk, 0, num_read);
  }
  if (bytes.empty()) throw std::runtime_error(file + ": nothing read (is zstd installed?)");
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < bytes.size();) {
    const size_t end = std::min(bytes.find('\n', begin), bytes.size());
    const std::string line = bytes.substr(begin, end - begin);
    const auto json = nlohmann::json::parse(line, nullptr, false);
    texts.push_back(json.is_object() && json["text"].is_string() ? json["text"].get<std::string>()
                                                                 : line);
    begin = end + 1;
  }
  return texts;
}

}  // namespace weft::test
