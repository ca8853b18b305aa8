#include "preprocess/xz_blocks.h"

#include <fcntl.h>
#include <lzma.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <optional>

#include "preprocess/lzma_errors.h"

namespace weft {
namespace {

constexpr int64_t kHeaderBytes = LZMA_STREAM_HEADER_SIZE;  // the footer has as many
constexpr int64_t kMinIndexBytes = 8;
constexpr int64_t kMaxStreams = 16384;
constexpr uint64_t kIndexMemoryBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxBlocks = 4 << 20;

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
    if (lzma_index_decoder(&stream, &index, kIndexMemoryBytes) != LZMA_OK) throw std::bad_alloc();
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
};

// Options of filters are allocated by liblzma with malloc.
class Filters {
 public:
  Filters() { forget(); }
  Filters(const Filters&) = delete;
  ~Filters() { release(); }
  lzma_filter* get() { return filters_.data(); }
  void release() {
    for (lzma_filter& filter : filters_) std::free(filter.options);
    forget();
  }

 private:
  void forget() { filters_.fill({LZMA_VLI_UNKNOWN, nullptr}); }
  std::array<lzma_filter, LZMA_FILTERS_MAX + 1> filters_{};
};

class XzPartDecoder final : public StreamDecoder {
 public:
  XzPartDecoder(int begin_check, int end_check) : end_check_(end_check) {
    if (begin_check < 0) return;
    state_ = State::kBlockOrIndex;
    check_ = static_cast<lzma_check>(begin_check);
  }
  XzPartDecoder(const XzPartDecoder&) = delete;
  ~XzPartDecoder() override {
    lzma_end(&stream_);
    lzma_index_end(index_, nullptr);
    lzma_index_hash_end(index_hash_, nullptr);
  }

  Step decode(std::string_view in, std::span<char> out, bool end_of_input) override {
    const size_t had_in = in.size();
    size_t num_produced = 0;
    while (!in.empty() || (end_of_input && state_ == State::kBlock)) {
      const size_t had = in.size();
      switch (state_) {
        case State::kStreamHeader:
          if (gather(in, kHeaderBytes)) begin_stream();
          break;
        case State::kBlockOrIndex:
          begin_block_or_index(in);
          break;
        case State::kBlock:
          num_produced = decode_block(in, out, end_of_input);
          break;
        case State::kIndex:
          decode_index(in);
          break;
        case State::kFooter:
          if (gather(in, kHeaderBytes)) end_stream();
          break;
        case State::kPadding:
          skip_padding(in);
          break;
      }
      if (num_produced > 0 || (state_ == State::kBlock && in.size() == had)) break;
    }
    return {had_in - in.size(), num_produced};
  }
  bool complete() const override {
    if (!gathered_.empty()) return false;
    if (end_check_ < 0) return state_ == State::kPadding && num_padding_ % 4 == 0;
    return state_ == State::kBlockOrIndex && check_ == static_cast<lzma_check>(end_check_);
  }
  std::string format() const override { return "xz"; }

 private:
  enum class State { kStreamHeader, kBlockOrIndex, kBlock, kIndex, kFooter, kPadding };

  // Moves bytes from `in` until `gathered_` has `size_bytes`.
  bool gather(std::string_view& in, size_t size_bytes) {
    const size_t missing = std::min(in.size(), size_bytes - gathered_.size());
    gathered_.append(in.substr(0, missing));
    in.remove_prefix(missing);
    return gathered_.size() == size_bytes;
  }
  const uint8_t* gathered() const { return reinterpret_cast<const uint8_t*>(gathered_.data()); }

  void begin_stream() {
    lzma_stream_flags flags{};
    check_lzma(lzma_stream_header_decode(&flags, gathered()));
    gathered_.clear();
    check_ = flags.check;
    index_hash_ = lzma_index_hash_init(index_hash_, nullptr);
    if (index_hash_ == nullptr) throw std::bad_alloc();
    has_stream_begin_ = true;
    state_ = State::kBlockOrIndex;
  }

  // A zero byte starts the index, any other one is a quarter of a block header's size.
  void begin_block_or_index(std::string_view& in) {
    if (gathered_.empty() && in.front() == '\0') {
      if (!has_stream_begin_) check_lzma(lzma_index_decoder(&stream_, &index_, kIndexMemoryBytes));
      state_ = State::kIndex;
      return;
    }
    const auto first = static_cast<uint8_t>(gathered_.empty() ? in.front() : gathered_.front());
    const uint32_t header_bytes = (uint32_t{first} + 1) * 4;
    if (!gather(in, header_bytes)) return;
    block_ = {};
    block_.version = 1;
    block_.check = check_;
    block_.filters = filters_.get();
    block_.header_size = header_bytes;
    check_lzma(lzma_block_header_decode(&block_, nullptr, gathered()));
    gathered_.clear();
    if (lzma_check_is_supported(check_) == 0) check_lzma(LZMA_UNSUPPORTED_CHECK);
    const uint64_t memory_bytes = lzma_raw_decoder_memusage(filters_.get());
    if (memory_bytes == UINT64_MAX) check_lzma(LZMA_OPTIONS_ERROR);
    if (memory_bytes > kXzMemoryLimitBytes) check_lzma(LZMA_MEMLIMIT_ERROR);
    check_lzma(lzma_block_decoder(&stream_, &block_));
    filters_.release();
    block_.filters = nullptr;
    state_ = State::kBlock;
  }

  size_t decode_block(std::string_view& in, std::span<char> out, bool end_of_input) {
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret result = code(in, end_of_input);
    if (result == LZMA_STREAM_END) {
      if (has_stream_begin_) {
        check_lzma(lzma_index_hash_append(index_hash_, lzma_block_unpadded_size(&block_),
                                          block_.uncompressed_size));
      }
      state_ = State::kBlockOrIndex;
    }
    return out.size() - stream_.avail_out;
  }

  void decode_index(std::string_view& in) {
    lzma_ret result = LZMA_OK;
    if (has_stream_begin_) {
      size_t position = 0;
      result = lzma_index_hash_decode(index_hash_, reinterpret_cast<const uint8_t*>(in.data()),
                                      &position, in.size());
      in.remove_prefix(position);
      if (result != LZMA_STREAM_END && result != LZMA_BUF_ERROR) check_lzma(result);
      index_bytes_ = lzma_index_hash_size(index_hash_);
    } else {
      result = code(in, false);
      if (result == LZMA_STREAM_END) index_bytes_ = lzma_index_size(index_);
    }
    if (result == LZMA_STREAM_END) state_ = State::kFooter;
  }

  void end_stream() {
    lzma_stream_flags flags{};
    check_lzma(lzma_stream_footer_decode(&flags, gathered()));
    gathered_.clear();
    if (flags.backward_size != index_bytes_ || flags.check != check_) check_lzma(LZMA_DATA_ERROR);
    num_padding_ = 0;
    state_ = State::kPadding;
  }

  void skip_padding(std::string_view& in) {
    const size_t num_zeros = std::min(in.find_first_not_of('\0'), in.size());
    num_padding_ += num_zeros;
    in.remove_prefix(num_zeros);
    if (in.empty()) return;
    if (num_padding_ % 4 != 0) check_lzma(LZMA_DATA_ERROR);
    state_ = State::kStreamHeader;
  }

  lzma_ret code(std::string_view& in, bool end_of_input) {
    stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream_.avail_in = in.size();
    const lzma_ret result = lzma_code(&stream_, end_of_input ? LZMA_FINISH : LZMA_RUN);
    in.remove_prefix(in.size() - stream_.avail_in);
    if (result != LZMA_STREAM_END && result != LZMA_BUF_ERROR) check_lzma(result);
    return result;
  }

  State state_ = State::kStreamHeader;
  lzma_check check_ = LZMA_CHECK_NONE;
  int end_check_;
  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_block block_{};
  Filters filters_;
  std::string gathered_;           // a header that is not complete
  bool has_stream_begin_ = false;  // of the stream that goes on now
  lzma_index_hash* index_hash_ = nullptr;
  lzma_index* index_ = nullptr;
  uint64_t index_bytes_ = 0, num_padding_ = 0;
};

}  // namespace

std::vector<XzPart> xz_parts(const RandomAccess& file, const LayoutLimits& limits) {
  std::vector<XzPart> parts{{0, -1}};
#ifdef POSIX_FADV_RANDOM
  file.advise(POSIX_FADV_RANDOM);
#endif
  auto blocks = BackwardWalk(file, limits.max_reads).blocks();
  if (!blocks) return parts;
  const int64_t min_part_bytes =
      std::max<int64_t>({limits.min_part_bytes, file.size_bytes() / limits.max_parts, 1});
  for (auto block = blocks->rbegin(); block != blocks->rend(); ++block) {
    if (block->begin - parts.back().begin >= min_part_bytes) parts.push_back(*block);
  }
  return parts;
}

std::unique_ptr<StreamDecoder> xz_part_decoder(int begin_check, int end_check) {
  return std::make_unique<XzPartDecoder>(begin_check, end_check);
}

}  // namespace weft
