#include "preprocess/decompress.h"

#include <bzlib.h>
#include <lzma.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <new>

#include "preprocess/gzip_decoder.h"
#include "preprocess/lzma_errors.h"

namespace weft {
namespace {

// bzip2's counters are 32-bit.
constexpr size_t kMaxStep = 1 << 30;
unsigned clamp_step(size_t size_bytes) {
  return static_cast<unsigned>(size_bytes < kMaxStep ? size_bytes : kMaxStep);
}

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
    stream_.next_in = const_cast<char*>(in.data());
    stream_.avail_in = clamp_step(in.size());
    stream_.next_out = out.data();
    stream_.avail_out = clamp_step(out.size());
    const size_t had_in = stream_.avail_in, had_out = stream_.avail_out;
    const int result = BZ2_bzDecompress(&stream_);
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result == BZ_DATA_ERROR) throw CorruptStream("block checksum or structure is wrong");
    if (result == BZ_DATA_ERROR_MAGIC) throw CorruptStream("no bzip2 stream starts here");
    if (result != BZ_OK && result != BZ_STREAM_END) throw CorruptStream("corrupt stream");
    complete_ = result == BZ_STREAM_END;
    return {had_in - stream_.avail_in, had_out - stream_.avail_out};
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

class XzDecoder final : public StreamDecoder {
 public:
  XzDecoder() {
    if (lzma_stream_decoder(&stream_, kXzMemoryLimitBytes,
                            LZMA_CONCATENATED | LZMA_TELL_UNSUPPORTED_CHECK) != LZMA_OK) {
      throw std::bad_alloc();
    }
  }
  XzDecoder(const XzDecoder&) = delete;
  ~XzDecoder() override { lzma_end(&stream_); }

  Step decode(std::string_view in, std::span<char> out, bool end_of_input) override {
    stream_.next_in = reinterpret_cast<const uint8_t*>(in.data());
    stream_.avail_in = in.size();
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = out.size();
    const lzma_ret result = lzma_code(&stream_, end_of_input ? LZMA_FINISH : LZMA_RUN);
    complete_ = result == LZMA_STREAM_END;
    // LZMA_BUF_ERROR: no progress possible; the caller knows why.
    if (result != LZMA_BUF_ERROR) check_lzma(result);
    return {in.size() - stream_.avail_in, out.size() - stream_.avail_out};
  }
  // With LZMA_CONCATENATED the decoder itself looks for the next stream until the input ends.
  bool complete() const override { return complete_; }
  std::string format() const override { return "xz"; }

 private:
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool complete_ = false;
};

class ZstdDecoder final : public StreamDecoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxWindowLog);
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
  static constexpr int kMaxWindowLog = 27;  // 128 MiB, also what zstd -d accepts without --memory

  [[noreturn]] static void fail(size_t result) {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        throw std::bad_alloc();
      case ZSTD_error_frameParameter_windowTooLarge:
        throw LimitExceeded(
            "needs a window of more than 128 MiB; recompress it with --long=27 or less");
      default:
        throw CorruptStream(ZSTD_getErrorName(result));
    }
  }

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

std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes) {
  using namespace std::string_view_literals;
  if (first_bytes.starts_with("\x1F\x8B"sv)) return make_decoder("gzip");
  if (first_bytes.starts_with("\xFD"
                              "7zXZ\0"sv))
    return make_decoder("xz");
  if (is_zstd(first_bytes)) return make_decoder("zstd");
  // No JSON text starts with these letters, so three are enough.
  if (first_bytes.starts_with("BZh"sv)) return make_decoder("bzip2");
  return nullptr;
}

std::unique_ptr<StreamDecoder> make_decoder(std::string_view format) {
  if (format == "gzip") return make_gzip_decoder(default_gzip_library());
  if (format == "xz") return std::make_unique<XzDecoder>();
  if (format == "zstd") return std::make_unique<ZstdDecoder>();
  if (format == "bzip2") return std::make_unique<Bzip2Decoder>();
  throw std::logic_error("make_decoder: no such format");
}

}  // namespace weft
