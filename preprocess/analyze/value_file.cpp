#include "preprocess/analyze/value_file.h"

#include <cstring>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/unsynced_files.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {

namespace fs = std::filesystem;

void write_value_file(const fs::path& path, std::span<const int64_t> values) {
  const fs::path part = path.string() + ".part";
  const uint64_t checksum = XXH3_64bits(values.data(), values.size_bytes());
  OutputFile file(part);
  file.append(values.data(), values.size_bytes());
  file.append(&checksum, sizeof checksum);
  file.close();
  rename_unsynced(part, path);
}

std::optional<std::vector<int64_t>> find_value_file(const fs::path& path) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string bytes = read_file(path);
  uint64_t checksum = 0;
  if (bytes.size() < sizeof checksum || bytes.size() % sizeof(int64_t) != 0) return std::nullopt;
  const size_t size_bytes = bytes.size() - sizeof checksum;
  std::memcpy(&checksum, bytes.data() + size_bytes, sizeof checksum);
  if (checksum != XXH3_64bits(bytes.data(), size_bytes)) return std::nullopt;
  std::vector<int64_t> values(size_bytes / sizeof(int64_t));
  std::memcpy(values.data(), bytes.data(), size_bytes);
  return values;
}

}  // namespace weft
