#include "preprocess/compressed/xz_blocks.h"

#include <fcntl.h>
#include <lzma.h>

#include <algorithm>
#include <array>
#include <new>
#include <optional>

#include "preprocess/compressed/xz_decoder.h"

namespace weft {
namespace {

constexpr int64_t kHeaderBytes = LZMA_STREAM_HEADER_SIZE;  // the footer has as many
constexpr int64_t kMinIndexBytes = 8;
constexpr int64_t kMaxStreams = 16384;
constexpr uint64_t kMaxBlocks = 1 << 20;

using Header = std::array<uint8_t, kHeaderBytes>;

// Walks from the file's end to its start. All functions: nothing, or false, where something does
// not fit.
class BackwardWalk {
 public:
  BackwardWalk(const RandomAccess& file, int64_t max_reads) : file_(file), reads_left_(max_reads) {}

  // All blocks, the first of each stream as the stream's header; in descending order.
  std::optional<std::vector<XzPart>> blocks() {
    int64_t end = file_.size_bytes();
    for (int64_t num_streams = 0; end > 0; ++num_streams) {
      if (num_streams == kMaxStreams || !skip_padding(end) || !take_stream(end))
        return std::nullopt;
    }
    return std::move(blocks_);
  }
  int64_t longest_block_bytes() const { return longest_block_bytes_; }

 private:
  bool read_at(int64_t offset, uint8_t* to, size_t size_bytes) {
    return reads_left_-- > 0 && file_.read_at(offset, to, size_bytes);
  }

  // Stream padding: zeros, a multiple of four.
  bool skip_padding(int64_t& end) {
    std::array<uint8_t, 4096> zeros;
    for (;;) {
      const int64_t got = std::min<int64_t>(end, zeros.size());
      if (got % 4 != 0 || !read_at(end - got, zeros.data(), static_cast<size_t>(got))) return false;
      int64_t num_zeros = 0;
      while (num_zeros < got && zeros[got - 1 - num_zeros] == 0) ++num_zeros;
      // The footer ends with "YZ", so whole words of zeros are padding, and the rest is no file.
      if (num_zeros < got) {
        end -= num_zeros;
        return num_zeros % 4 == 0;
      }
      end -= got;
      if (end == 0) return false;
    }
  }

  // The stream that ends at `end`; moves `end` to its begin.
  bool take_stream(int64_t& end) {
    Header bytes;
    lzma_stream_flags footer{}, header{};
    if (end < 2 * kHeaderBytes + kMinIndexBytes ||
        !read_at(end - kHeaderBytes, bytes.data(), bytes.size()) ||
        lzma_stream_footer_decode(&footer, bytes.data()) != LZMA_OK ||
        footer.backward_size > static_cast<uint64_t>(end - 2 * kHeaderBytes)) {
      return false;
    }
    const auto index_bytes = static_cast<int64_t>(footer.backward_size);
    const int64_t index_begin = end - kHeaderBytes - index_bytes;
    const std::unique_ptr<lzma_index, void (*)(lzma_index*)> index(
        read_index(index_begin, index_bytes), [](lzma_index* i) { lzma_index_end(i, nullptr); });
    // liblzma keeps sums of an index below 2^63.
    if (!index ||
        lzma_index_total_size(index.get()) > static_cast<uint64_t>(index_begin - kHeaderBytes)) {
      return false;
    }
    const int64_t begin =
        index_begin - kHeaderBytes - static_cast<int64_t>(lzma_index_total_size(index.get()));
    if (!read_at(begin, bytes.data(), bytes.size()) ||
        lzma_stream_header_decode(&header, bytes.data()) != LZMA_OK ||
        lzma_stream_flags_compare(&header, &footer) != LZMA_OK) {
      return false;
    }
    end = begin;
    return add_blocks(begin, header.check, *index);
  }

  // Null where it is none, or too large.
  lzma_index* read_index(int64_t offset, int64_t size_bytes) {
    lzma_index* index = nullptr;
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_index_decoder(&stream, &index, kXzIndexMemoryBytes) != LZMA_OK) throw std::bad_alloc();
    std::vector<uint8_t> bytes(64 << 10);
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK && size_bytes > 0) {
      stream.avail_in =
          static_cast<size_t>(std::min<int64_t>(size_bytes, static_cast<int64_t>(bytes.size())));
      stream.next_in = bytes.data();
      if (!read_at(offset, bytes.data(), stream.avail_in)) break;
      offset += static_cast<int64_t>(stream.avail_in);
      size_bytes -= static_cast<int64_t>(stream.avail_in);
      result = lzma_code(&stream, LZMA_RUN);
    }
    const bool whole = result == LZMA_STREAM_END && size_bytes == 0 && stream.avail_in == 0;
    lzma_end(&stream);  // frees an index that was not finished
    if (result != LZMA_STREAM_END) return nullptr;
    if (whole) return index;
    lzma_index_end(index, nullptr);
    return nullptr;
  }

  bool add_blocks(int64_t stream_begin, lzma_check check, const lzma_index& index) {
    const auto num_before = static_cast<int64_t>(blocks_.size());
    if (lzma_index_block_count(&index) + blocks_.size() > kMaxBlocks) return false;
    blocks_.push_back({stream_begin, -1});
    lzma_index_iter iter;
    lzma_index_iter_init(&iter, &index);
    while (!lzma_index_iter_next(&iter, LZMA_INDEX_ITER_BLOCK)) {
      longest_block_bytes_ = std::max<int64_t>(longest_block_bytes_,
                                               static_cast<int64_t>(iter.block.uncompressed_size));
      if (iter.block.number_in_stream == 1) continue;  // comes with the stream's header
      blocks_.push_back({stream_begin + static_cast<int64_t>(iter.block.compressed_stream_offset),
                         static_cast<int>(check)});
    }
    std::reverse(blocks_.begin() + num_before, blocks_.end());
    return true;
  }

  const RandomAccess& file_;
  int64_t reads_left_;
  std::vector<XzPart> blocks_;
  int64_t longest_block_bytes_ = 0;
};

}  // namespace

XzParts xz_parts(const RandomAccess& file, const LayoutLimits& limits) {
  XzParts found;
#ifdef POSIX_FADV_RANDOM
  file.advise(POSIX_FADV_RANDOM);
#endif
  BackwardWalk walk(file, limits.max_reads);
  auto blocks = walk.blocks();
  if (!blocks) return found;
  found.longest_block_bytes = walk.longest_block_bytes();
  const int64_t min_part_bytes =
      std::max<int64_t>({limits.min_part_bytes, file.size_bytes() / limits.max_parts, 1});
  for (auto block = blocks->rbegin(); block != blocks->rend(); ++block) {
    if (block->begin - found.parts.back().begin >= min_part_bytes) found.parts.push_back(*block);
  }
  return found;
}

}  // namespace weft
