#include "preprocess/compressed/decompress.h"

#include <bzlib.h>
#define ZSTD_STATIC_LINKING_ONLY  // the size of a frame's window is told by these functions only
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/compressed/gzip_decoder.h"
#include "preprocess/compressed/xz_decoder.h"

namespace weft {
namespace {

class Bzip2Decoder final : public StreamDecoder {
 public:
  Bzip2Decoder() { start(); }
  Bzip2Decoder(const Bzip2Decoder&) = delete;
  ~Bzip2Decoder() override { BZ2_bzDecompressEnd(&stream_); }

  Step decode(std::string_view in, std::span<char> out, bool) override {
    if (complete_) {
      BZ2_bzDecompressEnd(&stream_);
      start();
    }
    int result = BZ_OK;
    const Step step = run_library(stream_, in, out, [&] { result = BZ2_bzDecompress(&stream_); });
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result == BZ_DATA_ERROR) throw CorruptStream("block checksum or structure is wrong");
    if (result == BZ_DATA_ERROR_MAGIC) throw CorruptStream("no bzip2 stream starts here");
    if (result != BZ_OK && result != BZ_STREAM_END) throw CorruptStream("corrupt stream");
    complete_ = result == BZ_STREAM_END;
    return step;
  }
  bool complete() const override { return complete_; }
  std::string format() const override { return "bzip2"; }

 private:
  void start() {
    stream_ = {};
    complete_ = false;
    if (BZ2_bzDecompressInit(&stream_, /*verbosity=*/0, /*small=*/0) != BZ_OK)
      throw std::bad_alloc();
  }

  bz_stream stream_{};
  bool complete_ = false;
};

class ZstdDecoder final : public StreamDecoder {
 public:
  explicit ZstdDecoder(const DecoderLimits& limits)
      : max_bytes_(limits.max_bytes), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    const ZSTD_bounds logs = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    ZSTD_DCtx_setMaxWindowSize(
        stream_, std::clamp(static_cast<size_t>(max_bytes_), size_t{1} << logs.lowerBound,
                            size_t{1} << logs.upperBound));
  }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

  Step decode(std::string_view in, std::span<char> out, bool) override {
    if (complete_) frame_header_.clear();  // `in` begins the next frame
    const size_t num_known = frame_header_.size();
    frame_header_ += in.substr(0, ZSTD_FRAMEHEADERSIZE_MAX - num_known);
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_, &output, &input);
    if (ZSTD_isError(result)) fail(result);
    // A frame ended and all of it was handed out; the next call starts the next frame.
    complete_ = result == 0;
    frame_header_.resize(std::min(frame_header_.size(), num_known + input.pos));
    return {input.pos, output.pos};
  }
  bool complete() const override { return complete_; }
  std::string format() const override { return "zstd"; }

 private:
  [[noreturn]] void fail(size_t result) const {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_frameParameter_windowTooLarge:
        throw_window_too_large(window_bytes(), max_bytes_);
      case ZSTD_error_dictionary_wrong:
        throw CorruptStream("it was compressed with a dictionary",
                            "decompress it with that first (zstd -d -D DICTIONARY FILE)");
      default:
        throw CorruptStream(ZSTD_getErrorName(result));
    }
  }

  // Of the frame that goes on now, by its header.
  int64_t window_bytes() const {
    ZSTD_frameHeader header{};
    const size_t result = ZSTD_getFrameHeader(&header, frame_header_.data(), frame_header_.size());
    return result == 0 ? static_cast<int64_t>(header.windowSize) : 0;
  }

  const int64_t max_bytes_;
  ZSTD_DStream* stream_;
  std::string frame_header_;  // the first bytes of the frame
  bool complete_ = false;
};

bool is_zstd(std::string_view bytes) {
  const bool frame = bytes.starts_with("\x28\xB5\x2F\xFD");
  const bool skippable =
      bytes.size() >= 4 && (bytes[0] & 0xF0) == 0x50 && bytes.substr(1, 3) == "\x2A\x4D\x18";
  return frame || skippable;
}

}  // namespace

void throw_window_too_large(int64_t needed_bytes, int64_t max_bytes) {
  throw LimitExceeded("needs " + std::to_string(needed_bytes) +
                      " bytes for its window or dictionary, and may take " +
                      std::to_string(max_bytes) +
                      "; recompress it (xz -9 or less, zstd --long=27 or less), or give weft-data "
                      "preprocess --decoder-memory " +
                      std::to_string(needed_bytes));
}

std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes,
                                           const DecoderLimits& limits) {
  using namespace std::string_view_literals;
  if (first_bytes.starts_with("\x1F\x8B"sv)) return make_decoder("gzip", limits);
  if (first_bytes.starts_with("\xFD"
                              "7zXZ\0"sv))
    return make_decoder("xz", limits);
  if (is_zstd(first_bytes)) return make_decoder("zstd", limits);
  // No JSON text starts with these letters, so three are enough.
  if (first_bytes.starts_with("BZh"sv)) return make_decoder("bzip2", limits);
  return nullptr;
}

std::unique_ptr<StreamDecoder> make_decoder(std::string_view format, const DecoderLimits& limits) {
  if (format == "gzip") return make_gzip_decoder();
  if (format == "xz") return make_xz_decoder(limits);
  if (format == "zstd") return std::make_unique<ZstdDecoder>(limits);
  if (format == "bzip2") return std::make_unique<Bzip2Decoder>();
  throw std::logic_error("make_decoder: no such format");
}

}  // namespace weft
