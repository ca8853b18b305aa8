#include "indexed_dataset/format/soundness/file_checksum.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {

std::string xxh3_of_file(const std::filesystem::path& path) {
  constexpr int64_t kPieceBytes = 1 << 20;
  const InputFile file(path);
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> piece(static_cast<size_t>(std::min(kPieceBytes, file.size_bytes())));
  for (int64_t begin = 0; begin < file.size_bytes(); begin += kPieceBytes) {
    const auto count = static_cast<size_t>(std::min(kPieceBytes, file.size_bytes() - begin));
    file.read_at(piece.data(), count, begin);
    XXH3_64bits_update(&hash, piece.data(), count);
  }
  return fmt::format("{:016x}", XXH3_64bits_digest(&hash));
}

}  // namespace weft
