#include "preprocess/compressed/xz_decoder.h"

#include <lzma.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>

#include "preprocess/compressed/lzma_errors.h"

namespace weft {
namespace {

constexpr size_t kHeaderBytes = LZMA_STREAM_HEADER_SIZE;  // the footer has as many

uint64_t dictionary_bytes_of(const lzma_filter* filters) {
  uint64_t size_bytes = 0;
  for (; filters->id != LZMA_VLI_UNKNOWN; ++filters) {
    if (filters->id == LZMA_FILTER_LZMA2)
      size_bytes = static_cast<const lzma_options_lzma*>(filters->options)->dict_size;
  }
  return size_bytes;
}

class XzPartDecoder final : public StreamDecoder {
 public:
  XzPartDecoder(int begin_check, int end_check, const WindowLimits& window)
      : end_check_(end_check), window_(window) {
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
      if (!has_stream_begin_)
        check_lzma(lzma_index_decoder(&stream_, &index_, kXzIndexMemoryBytes));
      state_ = State::kIndex;
      return;
    }
    const auto first = static_cast<uint8_t>(gathered_.empty() ? in.front() : gathered_.front());
    const uint32_t header_bytes = (uint32_t{first} + 1) * 4;
    if (!gather(in, header_bytes)) return;
    block_ = {};
    block_.version = 1;
    block_.check = check_;
    block_.header_size = header_bytes;
    std::array<lzma_filter, LZMA_FILTERS_MAX + 1> filters;
    block_.filters = filters.data();
    check_lzma(lzma_block_header_decode(&block_, nullptr, gathered()));
    gathered_.clear();
    const std::unique_ptr<lzma_filter, void (*)(lzma_filter*)> options(
        filters.data(), [](lzma_filter* used) { lzma_filters_free(used, nullptr); });
    if (lzma_check_is_supported(check_) == 0) check_lzma(LZMA_UNSUPPORTED_CHECK);
    dictionary_bytes_ = dictionary_bytes_of(filters.data());
    if (block_.uncompressed_size != LZMA_VLI_UNKNOWN) {
      need_window_for(block_.uncompressed_size);
    } else {
      need_window_for(static_cast<uint64_t>(window_.longest_block_bytes));
    }
    num_block_bytes_ = 0;
    check_lzma(lzma_block_decoder(&stream_, &block_));
    block_.filters = nullptr;
    state_ = State::kBlock;
  }

  // A dictionary is filled as text is produced, and only what is filled takes memory: one that is
  // larger than the text of its block does no harm.
  void need_window_for(uint64_t num_text_bytes) const {
    const auto size_bytes = static_cast<uint64_t>(window_.size_bytes);
    if (std::min(dictionary_bytes_, num_text_bytes) <= size_bytes) return;
    if (dictionary_bytes_ > static_cast<uint64_t>(window_.max_bytes))
      throw_window_too_large(window_.max_bytes);
    throw NeedsLargerWindow{static_cast<int64_t>(dictionary_bytes_)};
  }

  size_t decode_block(std::string_view& in, std::span<char> out, bool end_of_input) {
    need_window_for(num_block_bytes_ + 1);
    if (dictionary_bytes_ > static_cast<uint64_t>(window_.size_bytes)) {
      out = out.first(std::min<size_t>(out.size(), window_.size_bytes - num_block_bytes_));
    }
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
    num_block_bytes_ += out.size() - stream_.avail_out;
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
  WindowLimits window_;
  uint64_t dictionary_bytes_ = 0, num_block_bytes_ = 0;  // of the block that goes on now
  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_block block_{};
  std::string gathered_;           // a header that is not complete
  bool has_stream_begin_ = false;  // of the stream that goes on now
  lzma_index_hash* index_hash_ = nullptr;
  lzma_index* index_ = nullptr;
  uint64_t index_bytes_ = 0, num_padding_ = 0;
};

}  // namespace

std::unique_ptr<StreamDecoder> xz_part_decoder(int begin_check, int end_check,
                                               const WindowLimits& window) {
  return std::make_unique<XzPartDecoder>(begin_check, end_check, window);
}

}  // namespace weft
