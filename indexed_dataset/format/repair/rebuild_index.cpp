#include "indexed_dataset/format/repair/rebuild_index.h"

#include <algorithm>
#include <limits>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/little_endian.h"

namespace weft {
namespace {

int64_t load_token(const std::byte* data, TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return load_number<uint8_t>(data);
    case TokenType::kInt8:
      return load_number<int8_t>(data);
    case TokenType::kInt16:
      return load_number<int16_t>(data);
    case TokenType::kInt32:
      return load_number<int32_t>(data);
    case TokenType::kInt64:
      return load_number<int64_t>(data);
    case TokenType::kUInt16:
      return load_number<uint16_t>(data);
  }
  return -1;
}

}  // namespace

bool add_lengths_by_end_of_document(const std::filesystem::path& bin, TokenType type,
                                    int64_t end_of_document, int num_threads, IndexDraft& draft) {
  const InputFile file(bin);
  const int64_t item_bytes = size_bytes(type);
  if (file.size_bytes() % item_bytes != 0) return false;
  // So many blocks at a time, then the ends in them in their order.
  constexpr int64_t kBlockBytes = int64_t{1} << 18;
  const int64_t num_blocks = (file.size_bytes() + kBlockBytes - 1) / kBlockBytes;
  std::vector<std::vector<uint32_t>> ends(4 * static_cast<size_t>(std::max(num_threads, 1)));
  int64_t document_begin = 0;  // in tokens
  for (int64_t first = 0; first < num_blocks; first += std::ssize(ends)) {
    const int64_t count = std::min(std::ssize(ends), num_blocks - first);
    parallel_for(count, num_threads, [&](int64_t k) {
      std::vector<uint32_t>& found = ends[static_cast<size_t>(k)];
      found.clear();
      thread_local std::vector<std::byte> bytes;
      const int64_t at = (first + k) * kBlockBytes;
      bytes.resize(static_cast<size_t>(std::min(kBlockBytes, file.size_bytes() - at)));
      file.read_at(bytes.data(), bytes.size(), at);
      for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(item_bytes)) {
        if (load_token(bytes.data() + i, type) == end_of_document)
          found.push_back(static_cast<uint32_t>(i / static_cast<size_t>(item_bytes)) + 1);
      }
    });
    for (int64_t k = 0; k < count; ++k) {
      for (const uint32_t end : ends[static_cast<size_t>(k)]) {
        const int64_t end_token = (first + k) * (kBlockBytes / item_bytes) + end;
        if (end_token - document_begin > std::numeric_limits<int32_t>::max()) return false;
        draft.add_length(static_cast<int32_t>(end_token - document_begin));
        document_begin = end_token;
      }
    }
  }
  return document_begin * item_bytes == file.size_bytes();
}

}  // namespace weft
