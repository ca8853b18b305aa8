#include "indexed_dataset/format/repair/rebuild_index.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"

namespace weft {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 18;

// Returns the numbers of tokens from the begin of block `block` to the end of each document that
// ends in it.
std::vector<uint32_t> ends_in_block(const InputFile& file, int64_t block, TokenType type,
                                    int64_t end_of_document) {
  thread_local std::vector<std::byte> bytes;
  const int64_t at = block * kBlockBytes;
  bytes.resize(static_cast<size_t>(std::min(kBlockBytes, file.size_bytes() - at)));
  file.read_at(bytes.data(), bytes.size(), at);
  std::vector<uint32_t> ends;
  with_number_type(type, [&]<typename T>(T) {
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
      if (static_cast<int64_t>(load_number<T>(bytes.data() + i * sizeof(T))) == end_of_document)
        ends.push_back(static_cast<uint32_t>(i) + 1);
    }
  });
  return ends;
}

// Appends entry(0), entry(1), ... in blocks: far more than a call costs, and little memory.
template <typename Entry>
void append_entries(OutputFile& file, int64_t count, const Entry& entry) {
  constexpr int64_t kEntriesAtATime = int64_t{1} << 17;
  std::vector<int64_t> entries;
  for (int64_t i = 0; i < count; ++i) {
    entries.push_back(entry(i));
    if (std::ssize(entries) < kEntriesAtATime && i + 1 < count) continue;
    file.append(entries.data(), 8 * entries.size());
    entries.clear();
  }
}

}  // namespace

std::optional<int64_t> rebuild_index(const std::filesystem::path& bin, TokenType type,
                                     int64_t end_of_document, int num_threads, OutputFile& idx,
                                     const OnProgress& on_progress) {
  const InputFile file(bin);
  const int64_t item_bytes = size_bytes(type);
  if (file.size_bytes() % item_bytes != 0) return std::nullopt;
  const std::string no_header(kIndexHeaderBytes, '\0');
  idx.append(no_header.data(), no_header.size());
  // So many blocks at a time, then the lengths of the documents that end in them, in their order.
  const int64_t num_blocks = (file.size_bytes() + kBlockBytes - 1) / kBlockBytes;
  std::vector<std::vector<uint32_t>> ends(4 * static_cast<size_t>(std::max(num_threads, 1)));
  int64_t document_begin = 0, num_documents = 0;
  for (int64_t first = 0; first < num_blocks; first += std::ssize(ends)) {
    const int64_t count = std::min(std::ssize(ends), num_blocks - first);
    parallel_for(count, num_threads, [&](int64_t k) {
      ends[static_cast<size_t>(k)] = ends_in_block(file, first + k, type, end_of_document);
      if (on_progress) on_progress("searched", kBlockBytes, num_blocks * kBlockBytes);
    });
    std::vector<int32_t> lengths;
    for (int64_t k = 0; k < count; ++k) {
      for (const uint32_t end : ends[static_cast<size_t>(k)]) {
        const int64_t end_token = (first + k) * (kBlockBytes / item_bytes) + end;
        if (end_token - document_begin > std::numeric_limits<int32_t>::max()) return std::nullopt;
        lengths.push_back(static_cast<int32_t>(end_token - document_begin));
        document_begin = end_token;
      }
    }
    idx.append(lengths.data(), 4 * lengths.size());
    num_documents += std::ssize(lengths);
  }
  if (document_begin * item_bytes != file.size_bytes()) return std::nullopt;

  const MappedFile written(idx.path());
  const std::byte* lengths = written.bytes().data() + kIndexHeaderBytes;
  int64_t offset_bytes = 0;
  append_entries(idx, num_documents, [&](int64_t i) {
    const int64_t begin = offset_bytes;
    offset_bytes += load_number<int32_t>(lengths + 4 * i) * item_bytes;
    return begin;
  });
  append_entries(idx, num_documents + 1, [](int64_t i) { return i; });
  const std::string header =
      SharedPairWriter::index_header({num_documents, num_documents, document_begin}, type);
  idx.write_at(header.data(), header.size(), 0);
  idx.sync();
  return num_documents;
}

}  // namespace weft
