#include "preprocess/compressed/decoded_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/stream/read_ahead.h"

namespace weft {
namespace {

// A source whose first bytes can be looked at before they are read.
class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(std::unique_ptr<ByteSource> raw) : raw_(std::move(raw)) {
    while (num_peeked_ < peeked_.size()) {
      const size_t got = raw_->read(peeked_.data() + num_peeked_, peeked_.size() - num_peeked_);
      if (got == 0) break;
      num_peeked_ += got;
    }
  }
  std::string_view first_bytes() const { return {peeked_.data(), num_peeked_}; }

  size_t read(char* data, size_t size_bytes) override {
    const size_t got = std::min(size_bytes, num_peeked_ - num_replayed_);
    if (got == 0) return raw_->read(data, size_bytes);
    std::memcpy(data, peeked_.data() + num_replayed_, got);
    num_replayed_ += got;
    return got;
  }
  int64_t num_bytes_taken() const override {
    return raw_->num_bytes_taken() - static_cast<int64_t>(num_peeked_ - num_replayed_);
  }
  void interrupt() noexcept override { raw_->interrupt(); }

 private:
  std::unique_ptr<ByteSource> raw_;
  std::array<char, kNumMagicBytes> peeked_{};
  size_t num_peeked_ = 0, num_replayed_ = 0;
};

// Feeds a source through a decoder.
class DecodedSource final : public ByteSource {
 public:
  DecodedSource(std::unique_ptr<StreamDecoder> decoder, std::unique_ptr<ByteSource> raw,
                std::string name, int64_t first_byte, int64_t max_output_bytes)
      : name_(std::move(name)),
        raw_(std::move(raw)),
        decoder_(std::move(decoder)),
        input_(kInputBytes),
        first_byte_(first_byte),
        max_output_bytes_(max_output_bytes) {}

  size_t read(char* data, size_t size_bytes) override {
    for (;;) {
      refill_if_empty();
      if (begin_ == end_ && decoder_->complete()) return 0;
      const StreamDecoder::Step step =
          decode({input_.data() + begin_, end_ - begin_}, {data, size_bytes});
      begin_ += step.num_consumed;
      num_consumed_ += static_cast<int64_t>(step.num_consumed);
      num_produced_ += static_cast<int64_t>(step.num_produced);
      if (num_produced_ > max_output_bytes_) fail_by_limit();
      if (step.num_produced > 0) return step.num_produced;
      if (step.num_consumed > 0) continue;
      if (begin_ == end_ && at_end_ && !decoder_->complete()) {
        fail("the stream is cut off: the file is incomplete");
      }
      if (begin_ != end_) fail("the stream is corrupt");
    }
  }
  int64_t num_bytes_taken() const override { return num_consumed_; }
  void interrupt() noexcept override { raw_->interrupt(); }

 private:
  // 1 MiB: far above what a decoder consumes per call, small beside one chunk of text.
  static constexpr size_t kInputBytes = 1 << 20;

  void refill_if_empty() {
    if (begin_ != end_ || at_end_) return;
    begin_ = 0;
    end_ = 0;  // stays right if read() throws
    end_ = raw_->read(input_.data(), input_.size());
    at_end_ = end_ == 0;
  }

  StreamDecoder::Step decode(std::string_view in, std::span<char> out) {
    try {
      return decoder_->decode(in, out, at_end_);
    } catch (const CorruptStream& error) {
      // The library does not say how far it came in what it was given, and may have made text that
      // was not handed out.
      fail(error.what(), error.advice, static_cast<int64_t>(in.size()));
    } catch (const LimitExceeded& error) {
      throw LimitExceeded(where() + error.what());
    }
  }

  // Names the next compressed byte, or the range of `num_given` bytes that begins with it.
  std::string where(int64_t num_given = 0) const {
    const int64_t at = first_byte_ + num_consumed_;
    return name_ + ": " + decoder_->format() + " data, compressed byte " + std::to_string(at) +
           (num_given > 1 ? " to " + std::to_string(at + num_given - 1) : "") + " (after " +
           std::to_string(num_produced_) + " decompressed bytes" +
           (first_byte_ > 0 ? " from byte " + std::to_string(first_byte_) + " on" : "") + "): ";
  }
  [[noreturn]] void fail(const std::string& why, const std::string& advice = kFetchAgain,
                         int64_t num_given = 0) const {
    throw std::runtime_error(where(num_given) + why + "; " + advice);
  }
  [[noreturn]] void fail_by_limit() const {
    throw LimitExceeded(where() + "gives more than the " + std::to_string(max_output_bytes_) +
                        " bytes allowed per input; if it is no decompression bomb, raise "
                        "--max-output");
  }

  std::string name_;
  std::unique_ptr<ByteSource> raw_;
  std::unique_ptr<StreamDecoder> decoder_;
  std::vector<char> input_;
  int64_t first_byte_, max_output_bytes_;
  size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
  int64_t num_consumed_ = 0, num_produced_ = 0;
};

// Only used to tell an interrupted copy from an empty corpus.
bool has_compressed_name(std::string_view path) {
  return path.ends_with(".gz") || path.ends_with(".xz") || path.ends_with(".zst") ||
         path.ends_with(".bz2");
}

}  // namespace

std::unique_ptr<ByteSource> decode_with(std::unique_ptr<StreamDecoder> decoder,
                                        std::unique_ptr<ByteSource> raw, const std::string& name,
                                        int64_t first_byte, const DecodeOptions& options) {
  std::unique_ptr<ByteSource> source = std::make_unique<DecodedSource>(
      std::move(decoder), std::move(raw), name, first_byte, options.max_output_bytes);
  if (!options.read_ahead) return source;
  return std::make_unique<ReadAheadSource>(std::move(source));
}

std::unique_ptr<ByteSource> decode(std::unique_ptr<ByteSource> raw, const std::string& name,
                                   const DecodeOptions& options) {
  auto peeked = std::make_unique<PeekedSource>(std::move(raw));
  const std::string_view first_bytes = peeked->first_bytes();
  auto decoder = decoder_for(first_bytes, options.decoder);
  if (decoder) return decode_with(std::move(decoder), std::move(peeked), name, 0, options);
  if (has_compressed_name(name) && first_bytes.size() < kNumMagicBytes) {
    throw std::runtime_error(name + ": has only " + std::to_string(first_bytes.size()) +
                             " bytes, no compressed file is so short: the file is incomplete; "
                             "fetch or copy it again");
  }
  return peeked;
}

}  // namespace weft
