#include "preprocess/compressed/decompress.h"

#include <bzlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <bit>
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
  explicit ZstdDecoder(const WindowLimits& window)
      : window_(window), stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    const int log = std::bit_width(static_cast<uint64_t>(window.size_bytes)) - 1;
    const ZSTD_bounds bounds = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax,
                           std::clamp(log, bounds.lowerBound, bounds.upperBound));
  }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }

  Step decode(std::string_view in, std::span<char> out, bool) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out.data(), out.size(), 0};
    const size_t result = ZSTD_decompressStream(stream_, &output, &input);
    if (ZSTD_isError(result)) fail(result);
    // A frame ended and all of it was handed out; the next call starts the next frame.
    complete_ = result == 0;
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
        // How much it needs is not told.
        if (window_.size_bytes >= window_.max_bytes) throw_window_too_large(window_.max_bytes);
        throw NeedsLargerWindow{
            std::min(2 * std::max(window_.size_bytes, kMinBytes), window_.max_bytes)};
      case ZSTD_error_dictionary_wrong:
        throw CorruptStream("it was compressed with a dictionary",
                            "decompress it with that first (zstd -d -D DICTIONARY FILE)");
      default:
        throw CorruptStream(ZSTD_getErrorName(result));
    }
  }

  static constexpr int64_t kMinBytes = 1 << 10;  // of the format

  WindowLimits window_;
  ZSTD_DStream* stream_;
  bool complete_ = false;
};

bool is_zstd(std::string_view bytes) {
  const bool frame = bytes.starts_with("\x28\xB5\x2F\xFD");
  const bool skippable =
      bytes.size() >= 4 && (bytes[0] & 0xF0) == 0x50 && bytes.substr(1, 3) == "\x2A\x4D\x18";
  return frame || skippable;
}

}  // namespace

void throw_window_too_large(int64_t max_bytes) {
  throw LimitExceeded(
      "needs a window or dictionary of more than " + std::to_string(max_bytes >> 20) +
      " MiB; recompress it (xz -9 or less, zstd --long=27 or less), or let weft-data "
      "preprocess have more with --decoder-memory");
}

std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes,
                                           const WindowLimits& window) {
  using namespace std::string_view_literals;
  if (first_bytes.starts_with("\x1F\x8B"sv)) return make_decoder("gzip", window);
  if (first_bytes.starts_with("\xFD"
                              "7zXZ\0"sv))
    return make_decoder("xz", window);
  if (is_zstd(first_bytes)) return make_decoder("zstd", window);
  // No JSON text starts with these letters, so three are enough.
  if (first_bytes.starts_with("BZh"sv)) return make_decoder("bzip2", window);
  return nullptr;
}

std::unique_ptr<StreamDecoder> make_decoder(std::string_view format, const WindowLimits& window) {
  if (format == "gzip") return make_gzip_decoder();
  if (format == "xz") return xz_part_decoder(kXzStreamBegin, kXzFileEnd, window);
  if (format == "zstd") return std::make_unique<ZstdDecoder>(window);
  if (format == "bzip2") return std::make_unique<Bzip2Decoder>();
  throw std::logic_error("make_decoder: no such format");
}

}  // namespace weft
