#include "preprocess/compressed/zstd_frames.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <optional>

#include "indexed_dataset/storage/little_endian.h"

namespace weft {
namespace {

constexpr uint32_t kFrameMagic = 0xFD2FB528;
constexpr uint32_t kSeekTableMagic = 0x8F92EAB1;
constexpr uint32_t kSeekTableFrameMagic = 0x184D2A5E;
constexpr uint32_t kPzstdHintMagic = 0x184D2A50;
constexpr int64_t kSkippableHeaderBytes = 8, kSeekTableFooterBytes = 9;
constexpr int64_t kMaxBlockBytes = 128 << 10;

bool is_skippable(uint32_t magic) { return (magic & 0xFFFFFFF0U) == 0x184D2A50U; }

// The file through one small window, so that small frames need few reads. Counts reads.
class Window {
 public:
  Window(const RandomAccess& file, int64_t max_reads, size_t size_bytes)
      : file_(file), reads_left_(max_reads), bytes_(size_bytes) {}

  // `num_bytes` bytes at `offset`, valid until the next call; null behind the file's end or when
  // no read is left.
  const uint8_t* at(int64_t offset, int64_t num_bytes) {
    const int64_t rest = file_.size_bytes() - offset;
    if (offset < 0 || rest < num_bytes) return nullptr;
    if (offset < begin_ || offset + num_bytes > end_) {
      if (reads_left_-- <= 0) return nullptr;
      const auto wanted = std::min<int64_t>(rest, static_cast<int64_t>(bytes_.size()));
      begin_ = end_ = 0;
      if (!file_.read_at(offset, bytes_.data(), static_cast<size_t>(wanted))) return nullptr;
      begin_ = offset;
      end_ = offset + wanted;
    }
    return bytes_.data() + (offset - begin_);
  }
  std::optional<uint32_t> magic_at(int64_t offset) {
    const uint8_t* bytes = at(offset, 4);
    if (bytes == nullptr) return std::nullopt;
    return static_cast<uint32_t>(load_number(bytes, 4));
  }

 private:
  const RandomAccess& file_;
  int64_t reads_left_;
  std::vector<uint8_t> bytes_;
  int64_t begin_ = 0, end_ = 0;
};

// Part begins so far; keeps them far enough apart.
class Begins {
 public:
  explicit Begins(int64_t min_part_bytes) : min_part_bytes_(min_part_bytes) {}
  bool wants(int64_t offset) const { return offset - offsets_.back() >= min_part_bytes_; }
  void add(int64_t offset) { offsets_.push_back(offset); }
  std::vector<int64_t> take() { return std::move(offsets_); }

 private:
  int64_t min_part_bytes_;
  std::vector<int64_t> offsets_{0};
};

// Number of entries, their size and where the first is; nothing without a well-formed table.
struct SeekTable {
  int64_t num_frames, entry_bytes, table_begin;
};
std::optional<SeekTable> find_seek_table(const RandomAccess& file) {
  std::array<uint8_t, kSeekTableFooterBytes> footer{};
  const int64_t size = file.size_bytes();
  if (size < kSkippableHeaderBytes + kSeekTableFooterBytes ||
      !file.read_at(size - kSeekTableFooterBytes, footer.data(), footer.size()) ||
      load_number(&footer[5], 4) != kSeekTableMagic || (footer[4] & 0x7C) != 0) {
    return std::nullopt;
  }
  // Below 2^32 * 12 + 17: no overflow.
  const auto num_frames = static_cast<int64_t>(load_number(footer.data(), 4));
  const int64_t entry_bytes = (footer[4] & 0x80) != 0 ? 12 : 8;
  const int64_t content_bytes = num_frames * entry_bytes + kSeekTableFooterBytes;
  const int64_t table_begin = size - content_bytes - kSkippableHeaderBytes;
  std::array<uint8_t, kSkippableHeaderBytes> header{};
  if (num_frames == 0 || table_begin <= 0 ||
      !file.read_at(table_begin, header.data(), header.size()) ||
      load_number(header.data(), 4) != kSeekTableFrameMagic ||
      static_cast<int64_t>(load_number(&header[4], 4)) != content_bytes) {
    return std::nullopt;
  }
  return SeekTable{num_frames, entry_bytes, table_begin};
}

// Nothing where the table contradicts the file.
std::optional<std::vector<int64_t>> begins_by_seek_table(const RandomAccess& file,
                                                         const LayoutLimits& limits,
                                                         int64_t min_part_bytes) {
  const auto table = find_seek_table(file);
  if (!table) return std::nullopt;
  Window entries(file, limits.max_reads, 64 << 10), frames(file, limits.max_reads, 4);
  Begins begins(min_part_bytes);
  int64_t offset = 0;
  for (int64_t i = 0; i < table->num_frames; ++i) {
    if (begins.wants(offset)) {
      const auto magic = frames.magic_at(offset);
      if (!magic || (*magic != kFrameMagic && !is_skippable(*magic))) return std::nullopt;
      if (*magic == kFrameMagic) begins.add(offset);
    }
    const uint8_t* entry = entries.at(
        table->table_begin + kSkippableHeaderBytes + i * table->entry_bytes, table->entry_bytes);
    if (entry == nullptr) return std::nullopt;
    const auto frame_bytes = static_cast<int64_t>(load_number(entry, 4));
    if (frame_bytes == 0 || frame_bytes > table->table_begin - offset) return std::nullopt;
    offset += frame_bytes;
  }
  if (offset != table->table_begin) return std::nullopt;
  return begins.take();
}

// Hops over frames. All functions: nothing where the search has to end.
class FrameWalk {
 public:
  FrameWalk(const RandomAccess& file, const LayoutLimits& limits)
      : size_(file.size_bytes()),
        max_blocks_(limits.max_blocks_per_frame),
        // 4 KiB: a page, what the kernel reads at least.
        window_(file, limits.max_reads, 4 << 10) {}

  std::vector<int64_t> begins(int64_t min_part_bytes) {
    Begins begins(min_part_bytes);
    int64_t offset = 0;
    while (offset < size_) {
      const auto magic = window_.magic_at(offset);
      if (!magic) break;
      std::optional<int64_t> end;
      if (*magic == kFrameMagic) {
        if (begins.wants(offset)) begins.add(offset);
        end = offset == hinted_begin_ ? hinted_end_ : frame_end(offset);
      } else if (is_skippable(*magic)) {
        end = skippable_end(offset, *magic);
      }
      if (!end) break;
      offset = *end;
    }
    return begins.take();
  }

 private:
  std::optional<int64_t> skippable_end(int64_t offset, uint32_t magic) {
    const uint8_t* header = window_.at(offset, kSkippableHeaderBytes);
    if (header == nullptr) return std::nullopt;
    const auto content_bytes = static_cast<int64_t>(load_number(header + 4, 4));
    const int64_t end = offset + kSkippableHeaderBytes + content_bytes;
    if (end > size_) return std::nullopt;
    if (magic == kPzstdHintMagic && content_bytes == 4) take_hint(end);
    return end;
  }

  // The 4 bytes before `frame` are the size of that frame, if pzstd wrote them.
  void take_hint(int64_t frame) {
    const uint8_t* hint = window_.at(frame - 4, 4);
    if (hint == nullptr) return;
    const auto end = frame + static_cast<int64_t>(load_number(hint, 4));
    if (end <= frame || end > size_) return;
    if (end < size_) {
      const auto magic = window_.magic_at(end);
      if (!magic || (*magic != kFrameMagic && !is_skippable(*magic))) return;
    }
    hinted_begin_ = frame;
    hinted_end_ = end;
  }

  std::optional<int64_t> frame_end(int64_t offset) {
    const uint8_t* descriptor_at = window_.at(offset + 4, 1);
    if (descriptor_at == nullptr) return std::nullopt;
    const uint8_t descriptor = *descriptor_at;
    const bool single_segment = (descriptor & 0x20) != 0, has_checksum = (descriptor & 0x04) != 0;
    if ((descriptor & 0x08) != 0) return std::nullopt;  // reserved
    constexpr std::array<int, 4> kDictionaryIdBytes{0, 1, 2, 4}, kContentSizeBytes{0, 2, 4, 8};
    int content_size_bytes = kContentSizeBytes[descriptor >> 6];
    if (content_size_bytes == 0 && single_segment) content_size_bytes = 1;
    const int content_size_at =
        5 + (single_segment ? 0 : 1) + kDictionaryIdBytes[descriptor & 0x03];
    const int header_bytes = content_size_at + content_size_bytes;
    const uint8_t* header = window_.at(offset, header_bytes);
    if (header == nullptr) return std::nullopt;
    if (content_size_bytes >= 4 &&
        load_number(header + content_size_at, static_cast<size_t>(content_size_bytes)) >
            static_cast<uint64_t>(max_blocks_ * kMaxBlockBytes)) {
      return std::nullopt;
    }
    return blocks_end(offset + header_bytes, has_checksum);
  }

  std::optional<int64_t> blocks_end(int64_t offset, bool has_checksum) {
    for (int64_t i = 0; i < max_blocks_; ++i) {
      const uint8_t* header_at = window_.at(offset, 3);
      if (header_at == nullptr) return std::nullopt;
      const auto header = static_cast<uint32_t>(load_number(header_at, 3));
      const uint32_t type = header >> 1 & 3, block_bytes = header >> 3;
      if (type == 3 || block_bytes > kMaxBlockBytes) return std::nullopt;
      offset += 3 + (type == 1 ? 1 : static_cast<int64_t>(block_bytes));
      if ((header & 1) == 0) continue;
      offset += has_checksum ? 4 : 0;
      if (offset > size_) return std::nullopt;
      return offset;
    }
    return std::nullopt;
  }

  int64_t size_, max_blocks_;
  Window window_;
  int64_t hinted_begin_ = -1, hinted_end_ = -1;
};

}  // namespace

std::vector<int64_t> zstd_part_begins(const RandomAccess& file, const LayoutLimits& limits) {
  const int64_t min_part_bytes =
      std::max<int64_t>({limits.min_part_bytes, file.size_bytes() / limits.max_parts, 1});
#ifdef POSIX_FADV_RANDOM
  file.advise(POSIX_FADV_RANDOM);
#endif
  if (auto begins = begins_by_seek_table(file, limits, min_part_bytes)) return *begins;
  return FrameWalk(file, limits).begins(min_part_bytes);
}

}  // namespace weft
