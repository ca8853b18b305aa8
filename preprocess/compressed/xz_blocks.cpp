#include "preprocess/compressed/xz_blocks.h"

#include <lzma.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "preprocess/compressed/xz_decoder.h"

namespace weft {
namespace {

using Index = std::unique_ptr<lzma_index, void (*)(lzma_index*)>;

// The indexes of all streams as one, as liblzma finds them from the file's end to its begin; null
// where anything does not fit.
Index read_indexes(const InputFile& file, int64_t max_reads) {
  Index index(nullptr, [](lzma_index* used) { lzma_index_end(used, nullptr); });
  lzma_index* found = nullptr;
  lzma_stream stream = LZMA_STREAM_INIT;
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> guard(&stream, lzma_end);
  if (lzma_file_info_decoder(&stream, &found, kXzIndexMemoryBytes,
                             static_cast<uint64_t>(file.size_bytes())) != LZMA_OK) {
    throw std::bad_alloc();
  }
  std::vector<uint8_t> bytes(32 << 10);
  int64_t offset = 0;
  lzma_ret result = LZMA_OK;
  for (int64_t num_reads = 0; num_reads < max_reads && result == LZMA_OK; ++num_reads) {
    stream.next_in = bytes.data();
    stream.avail_in =
        static_cast<size_t>(std::min<int64_t>(std::ssize(bytes), file.size_bytes() - offset));
    file.read_at(bytes.data(), stream.avail_in, offset);
    offset += static_cast<int64_t>(stream.avail_in);
    result = lzma_code(&stream, LZMA_RUN);
    if (result == LZMA_SEEK_NEEDED) {
      offset = static_cast<int64_t>(stream.seek_pos);
      result = LZMA_OK;
    }
  }
  index.reset(found);
  return index;
}

}  // namespace

void find_xz_parts(const InputFile& file, const LayoutLimits& limits, InputLayout& layout) {
  const Index index = read_indexes(file, limits.max_reads);
  if (!index) return;
  const int64_t distance = limits.part_distance_bytes(file.size_bytes());
  std::vector<int64_t> begins{0};
  std::vector<int8_t> checks{kXzStreamBegin};
  lzma_index_iter at;
  lzma_index_iter_init(&at, index.get());
  while (!lzma_index_iter_next(&at, LZMA_INDEX_ITER_ANY)) {
    const bool has_block = at.stream.block_count > 0;
    if (has_block) {
      layout.xz_longest_block_bytes =
          std::max(layout.xz_longest_block_bytes, static_cast<int64_t>(at.block.uncompressed_size));
    }
    // The first block comes with its stream's header.
    const bool begins_stream = !has_block || at.block.number_in_stream == 1;
    const auto begin = static_cast<int64_t>(begins_stream ? at.stream.compressed_offset
                                                          : at.block.compressed_file_offset);
    if (begin - begins.back() < distance) continue;
    begins.push_back(begin);
    checks.push_back(static_cast<int8_t>(begins_stream ? kXzStreamBegin : at.stream.flags->check));
  }
  if (begins.size() == 1) return;
  layout.part_begins = std::move(begins);
  layout.xz_checks = std::move(checks);
}

}  // namespace weft
