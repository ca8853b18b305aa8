// A vocabulary out of two files.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "tokenizer/formats/load_gpt2.h"

namespace weft::test {

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path.string() + ": cannot open");
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::shared_ptr<const Vocabulary> load_gpt2_files(const std::filesystem::path& vocab_json,
                                                         const std::filesystem::path& merges_txt) {
  const std::string entries = read_bytes(vocab_json), merges = read_bytes(merges_txt);
  return load_gpt2({vocab_json.string(), entries}, {merges_txt.string(), merges});
}

}  // namespace weft::test
