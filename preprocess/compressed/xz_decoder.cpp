#include "preprocess/compressed/xz_decoder.h"

#include <lzma.h>

#include <algorithm>
#include <new>
#include <string>

namespace weft {
namespace {

class XzDecoder final : public StreamDecoder {
 public:
  explicit XzDecoder(const DecoderLimits& limits) : limits_(limits) {
    constexpr uint32_t kFlags = LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK;
    const auto max_bytes = static_cast<uint64_t>(limits.max_bytes);
    if (limits.num_threads == 1) {
      check(lzma_stream_decoder(&stream_, max_bytes, kFlags));
      return;
    }
    lzma_mt options{};
    options.flags = kFlags;
    options.threads = static_cast<uint32_t>(limits.num_threads);
    options.memlimit_threading = max_bytes;  // fewer threads where they would need more
    options.memlimit_stop = max_bytes;
    check(lzma_stream_decoder_mt(&stream_, &options));
  }
  XzDecoder(const XzDecoder&) = delete;
  ~XzDecoder() override { lzma_end(&stream_); }

  Step decode(std::string_view in, std::span<char> out, bool end_of_input) override {
    lzma_ret result = LZMA_OK;
    if (limits_.num_threads > 1) head_ += in.substr(0, kHeadBytes - head_.size());
    const Step step = run_library(stream_, in, out, [&] {
      result = lzma_code(&stream_, end_of_input ? LZMA_FINISH : LZMA_RUN);
    });
    check(result);
    is_complete_ = result == LZMA_STREAM_END;
    return step;
  }
  bool complete() const override { return is_complete_; }
  std::string format() const override { return "xz"; }

 private:
  // Throws what stands for any result but that of a decoder which came further, is at the end, or
  // wants more input.
  void check(lzma_ret result) const {
    switch (result) {
      case LZMA_OK:
      case LZMA_STREAM_END:
      case LZMA_BUF_ERROR:
        return;
      case LZMA_MEM_ERROR:
        throw std::bad_alloc();
      case LZMA_MEMLIMIT_ERROR:
        throw_window_too_large(needed_bytes(), limits_.max_bytes);
      case LZMA_OPTIONS_ERROR:
        throw CorruptStream("its filters or options are of a kind that liblzma does not know",
                            "recompress it");
      case LZMA_UNSUPPORTED_CHECK:
        throw CorruptStream("its checksum is of a kind that liblzma does not know",
                            "recompress it");
      case LZMA_FORMAT_ERROR:
        throw CorruptStream("no xz stream starts here");
      case LZMA_DATA_ERROR:
        throw CorruptStream("checksum or structure is wrong");
      default:
        throw CorruptStream("corrupt stream (liblzma code " + std::to_string(result) + ")");
    }
  }

  // The decoder with threads does not tell what a block needs, so one without reads the header of
  // the first block; a later one may need more than that.
  int64_t needed_bytes() const {
    if (limits_.num_threads == 1) return static_cast<int64_t>(lzma_memusage(&stream_));
    lzma_stream probe = LZMA_STREAM_INIT;
    check(lzma_stream_decoder(&probe, /*memlimit=*/1, LZMA_CONCATENATED));
    char byte = 0;
    lzma_ret result = LZMA_OK;
    run_library(probe, head_, {&byte, 1}, [&] { result = lzma_code(&probe, LZMA_RUN); });
    const uint64_t bytes = result == LZMA_MEMLIMIT_ERROR ? lzma_memusage(&probe) : 0;
    lzma_end(&probe);
    return std::max(static_cast<int64_t>(bytes), limits_.max_bytes + 1);
  }

  static constexpr size_t kHeadBytes =
      2048;  // the headers of a stream and a block have 1036 at most

  DecoderLimits limits_;
  std::string head_;  // the first bytes of the file
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool is_complete_ = false;
};

}  // namespace

std::unique_ptr<StreamDecoder> make_xz_decoder(const DecoderLimits& limits) {
  return std::make_unique<XzDecoder>(limits);
}

}  // namespace weft
