// The tokenizers of other families, where WEFT_TOKENIZERS_DIR names their files: FAMILY/FILE, plain
// or packed by zstd.
#pragma once

#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/storage/sha256.h"
#include "tokenizer/formats/load_tokenizer.h"

namespace weft::test {

// Empty without WEFT_TOKENIZERS_DIR.
inline std::filesystem::path tokenizers_folder() {
  const char* folder = std::getenv("WEFT_TOKENIZERS_DIR");
  return folder == nullptr ? "" : folder;
}

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path.string() + ": cannot open");
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::string unpack_zstd(const std::string& packed) {
  std::string bytes;
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        ZSTD_freeDStream);
  std::string chunk(1 << 20, '\0');
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  while (in.pos < in.size) {
    ZSTD_outBuffer out = {chunk.data(), chunk.size(), 0};
    if (ZSTD_isError(ZSTD_decompressStream(stream.get(), &out, &in)))
      throw std::runtime_error("not zstd");
    bytes.append(chunk, 0, out.pos);
  }
  return bytes;
}

// The content of a file of the folder; "" if it is not there.
inline std::string family_file(const std::string& name) {
  const std::filesystem::path path = tokenizers_folder() / name, packed = path.string() + ".zst";
  if (std::filesystem::exists(packed)) return unpack_zstd(read_whole(packed));
  return std::filesystem::exists(path) ? read_whole(path) : "";
}

// Null if it is not there.
inline std::shared_ptr<const Vocabulary> load_family(const std::string& name) {
  const std::string bytes = family_file(name);
  if (bytes.empty()) return nullptr;
  return load_tokenizer({name, bytes}, {.sha256 = sha256_of(bytes)});
}

}  // namespace weft::test
