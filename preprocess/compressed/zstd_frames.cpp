#include "preprocess/compressed/zstd_frames.h"

#include <algorithm>
#include <array>
#include <vector>

#include "indexed_dataset/base/storage/little_endian.h"

namespace weft {
namespace {

constexpr uint32_t kFrameMagic = 0xFD2FB528;
constexpr uint32_t kSeekTableMagic = 0x8F92EAB1;
constexpr uint32_t kSeekTableFrameMagic = 0x184D2A5E;
constexpr uint32_t kPzstdHintMagic = 0x184D2A50;
constexpr int64_t kSkippableHeaderBytes = 8, kSeekTableFooterBytes = 9;
constexpr int64_t kMaxBlockBytes = 128 << 10;

// Thrown where a search has to end: something does not fit, or all its reads are used up.
struct SearchEnds {};

bool is_skippable(uint64_t magic) { return (magic & 0xFFFFFFF0U) == 0x184D2A50U; }
bool is_any_frame(uint64_t magic) { return magic == kFrameMagic || is_skippable(magic); }

// The file through one small window, so that small frames need few reads. Counts reads.
class Window {
 public:
  Window(const InputFile& file, int64_t max_reads, size_t size_bytes)
      : file_(file), reads_left_(max_reads), bytes_(size_bytes) {}

  // The little-endian number in the `num_bytes` bytes at `offset`.
  uint64_t number_at(int64_t offset, int64_t num_bytes) {
    const int64_t rest = file_.size_bytes() - offset;
    if (offset < 0 || rest < num_bytes) throw SearchEnds{};
    if (offset < begin_ || offset + num_bytes > end_) {
      if (reads_left_-- <= 0) throw SearchEnds{};
      const auto wanted = std::min<int64_t>(rest, static_cast<int64_t>(bytes_.size()));
      file_.read_at(bytes_.data(), static_cast<size_t>(wanted), offset);
      begin_ = offset;
      end_ = offset + wanted;
    }
    return load_number(bytes_.data() + (offset - begin_), static_cast<size_t>(num_bytes));
  }

 private:
  const InputFile& file_;
  int64_t reads_left_;
  std::vector<uint8_t> bytes_;
  int64_t begin_ = 0, end_ = 0;
};

// Begins of frames by the seek table. Throws SearchEnds without a well-formed table, or where it
// contradicts the file.
std::vector<int64_t> begins_by_seek_table(const InputFile& file, const LayoutLimits& limits,
                                          int64_t distance) {
  Window entries(file, limits.max_reads, 64 << 10), frames(file, limits.max_reads, 4);
  const int64_t footer = file.size_bytes() - kSeekTableFooterBytes;
  const uint64_t flags = entries.number_at(footer + 4, 1);
  if (entries.number_at(footer + 5, 4) != kSeekTableMagic || (flags & 0x7C) != 0)
    throw SearchEnds{};
  // Below 2^32 * 12 + 17: no overflow.
  const auto num_frames = static_cast<int64_t>(entries.number_at(footer, 4));
  const int64_t entry_bytes = (flags & 0x80) != 0 ? 12 : 8;
  const int64_t content_bytes = num_frames * entry_bytes + kSeekTableFooterBytes;
  const int64_t table = file.size_bytes() - content_bytes - kSkippableHeaderBytes;
  if (num_frames == 0 || entries.number_at(table, 4) != kSeekTableFrameMagic ||
      static_cast<int64_t>(entries.number_at(table + 4, 4)) != content_bytes) {
    throw SearchEnds{};
  }
  std::vector<int64_t> begins{0};
  int64_t offset = 0;
  for (int64_t i = 0; i < num_frames; ++i) {
    if (offset - begins.back() >= distance) {
      const uint64_t magic = frames.number_at(offset, 4);
      if (!is_any_frame(magic)) throw SearchEnds{};
      if (magic == kFrameMagic) begins.push_back(offset);
    }
    const auto frame_bytes =
        static_cast<int64_t>(entries.number_at(table + kSkippableHeaderBytes + i * entry_bytes, 4));
    if (frame_bytes == 0 || frame_bytes > table - offset) throw SearchEnds{};
    offset += frame_bytes;
  }
  if (offset != table) throw SearchEnds{};
  return begins;
}

// Hops over frames. Its functions throw SearchEnds where the search has to end.
class FrameWalk {
 public:
  FrameWalk(const InputFile& file, const LayoutLimits& limits)
      : size_(file.size_bytes()),
        max_blocks_(limits.max_blocks_per_frame),
        // 4 KiB: a page, which is the least that the kernel reads.
        window_(file, limits.max_reads, 4 << 10) {}

  // Adds the begins of frames to `begins`, at least `distance` apart.
  void find(int64_t distance, std::vector<int64_t>& begins) {
    for (int64_t offset = 0; offset < size_;) {
      const uint64_t magic = window_.number_at(offset, 4);
      if (is_skippable(magic)) {
        offset = skippable_end(offset, magic);
      } else if (magic == kFrameMagic) {
        if (offset - begins.back() >= distance) begins.push_back(offset);
        offset = offset == hinted_begin_ ? hinted_end_ : frame_end(offset);
      } else {
        throw SearchEnds{};
      }
    }
  }

 private:
  int64_t skippable_end(int64_t offset, uint64_t magic) {
    const auto content_bytes = static_cast<int64_t>(window_.number_at(offset + 4, 4));
    const int64_t end = offset + kSkippableHeaderBytes + content_bytes;
    if (end > size_) throw SearchEnds{};
    if (magic == kPzstdHintMagic && content_bytes == 4) take_hint(end);
    return end;
  }

  // The 4 bytes before `frame` are the size of that frame, if pzstd wrote them.
  void take_hint(int64_t frame) {
    const auto end = frame + static_cast<int64_t>(window_.number_at(frame - 4, 4));
    if (end <= frame || end > size_) return;
    if (end < size_ && (size_ - end < 4 || !is_any_frame(window_.number_at(end, 4)))) return;
    hinted_begin_ = frame;
    hinted_end_ = end;
  }

  int64_t frame_end(int64_t offset) {
    const uint64_t descriptor = window_.number_at(offset + 4, 1);
    const bool single_segment = (descriptor & 0x20) != 0, has_checksum = (descriptor & 0x04) != 0;
    if ((descriptor & 0x08) != 0) throw SearchEnds{};  // reserved
    constexpr std::array<int, 4> kDictionaryIdBytes{0, 1, 2, 4}, kContentSizeBytes{0, 2, 4, 8};
    int content_size_bytes = kContentSizeBytes[descriptor >> 6];
    if (content_size_bytes == 0 && single_segment) content_size_bytes = 1;
    const int64_t content_size_at =
        offset + 5 + (single_segment ? 0 : 1) + kDictionaryIdBytes[descriptor & 0x03];
    if (content_size_bytes >= 4 && window_.number_at(content_size_at, content_size_bytes) >
                                       static_cast<uint64_t>(max_blocks_ * kMaxBlockBytes)) {
      throw SearchEnds{};
    }
    return blocks_end(content_size_at + content_size_bytes, has_checksum);
  }

  int64_t blocks_end(int64_t offset, bool has_checksum) {
    for (int64_t i = 0; i < max_blocks_; ++i) {
      const uint64_t header = window_.number_at(offset, 3);
      const uint64_t type = header >> 1 & 3, block_bytes = header >> 3;
      if (type == 3 || block_bytes > kMaxBlockBytes) throw SearchEnds{};
      offset += 3 + (type == 1 ? 1 : static_cast<int64_t>(block_bytes));
      if ((header & 1) == 0) continue;
      offset += has_checksum ? 4 : 0;
      if (offset > size_) throw SearchEnds{};
      return offset;
    }
    throw SearchEnds{};
  }

  int64_t size_, max_blocks_;
  Window window_;
  int64_t hinted_begin_ = -1, hinted_end_ = -1;
};

}  // namespace

void find_zstd_parts(const InputFile& file, const LayoutLimits& limits, InputLayout& layout) {
  const int64_t distance = limits.part_distance_bytes(file.size_bytes());
  try {
    layout.part_begins = begins_by_seek_table(file, limits, distance);
    return;
  } catch (const SearchEnds&) {
    // Without a sound table, frames are found one by one.
  }
  try {
    FrameWalk(file, limits).find(distance, layout.part_begins);
  } catch (const SearchEnds&) {
    // All the rest is one part.
  }
}

}  // namespace weft
