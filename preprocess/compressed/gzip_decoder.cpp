#include "preprocess/compressed/gzip_decoder.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#ifdef WEFT_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

namespace weft {
namespace {

// The part that both libraries share: one member after another, zeros between them.
class GzipDecoder : public StreamDecoder {
 public:
  Step decode(std::string_view in, std::span<char> out, bool) final {
    size_t num_zeros = 0;
    if (complete_) {
      // Zero bytes after a member are padding (tapes, object stores), as for gzip itself.
      num_zeros = in.find_first_not_of('\0');
      if (num_zeros == std::string_view::npos) return {in.size(), 0};
      in.remove_prefix(num_zeros);
      begin_member();
      complete_ = false;
    }
    Step step = decode_member(in, out);
    step.num_consumed += num_zeros;
    return step;
  }
  bool complete() const final { return complete_; }
  std::string format() const final { return "gzip"; }

 protected:
  virtual void begin_member() = 0;
  // Sets complete_ at the member's end, and consumes nothing behind it.
  virtual Step decode_member(std::string_view in, std::span<char> out) = 0;

  bool complete_ = false;
};

class ZlibDecoder final : public GzipDecoder {
 public:
  ZlibDecoder() {
    // 15: largest window; +16: gzip header and trailer, CRC-32 and length checked by zlib.
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) throw std::bad_alloc();
  }
  ZlibDecoder(const ZlibDecoder&) = delete;
  ~ZlibDecoder() override { inflateEnd(&stream_); }

 private:
  void begin_member() override { inflateReset(&stream_); }

  Step decode_member(std::string_view in, std::span<char> out) override {
    int result = Z_OK;
    const Step step =
        run_library(stream_, in, out, [&] { result = inflate(&stream_, Z_NO_FLUSH); });
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) {
      complete_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw CorruptStream(stream_.msg != nullptr ? stream_.msg : "corrupt stream");
    }
    return step;
  }

  z_stream stream_{};
};

#ifdef WEFT_HAVE_ISAL
class IsalDecoder final : public GzipDecoder {
 public:
  IsalDecoder() : state_(std::make_unique<inflate_state>()) {}

 private:
  void begin_member() override { in_header_ = true; }

  Step decode_member(std::string_view in, std::span<char> out) override {
    const size_t had_in = in.size();
    if (in_header_) in_header_ = !read_header(in);
    if (in_header_) return {had_in, 0};
    Step step = run_library(*state_, in, out, [&] { check(isal_inflate(state_.get())); });
    step.num_consumed += had_in - in.size();
    complete_ = state_->block_state == ISAL_BLOCK_FINISH;
    return step;
  }

  // Takes the header's bytes, or all there are, from `in`; true when the header is complete. Bytes
  // are gathered until then, for ISA-L forgets the flags of a header that its input cuts.
  bool read_header(std::string_view& in) {
    while (!in.empty()) {
      // Most headers are short, and what lies behind is copied in vain.
      const size_t num_old = header_.size(), step = std::max<size_t>(num_old, 64);
      header_.append(in.substr(0, step));
      isal_gzip_header fields{};
      isal_inflate_init(state_.get());
      int result = ISAL_DECOMP_OK;
      const size_t num_read = run_library(*state_, header_, {}, [&] {
                                result = isal_read_gzip_header(state_.get(), &fields);
                              }).num_consumed;
      if (header_.size() > 3 && (header_[3] & 0xE0) != 0)
        throw CorruptStream("unknown header flags set");
      if (result != ISAL_END_INPUT) {
        check(result);
        in.remove_prefix(num_read - num_old);
        header_.clear();
        isal_inflate_init(state_.get());
        // The deflate data and the trailer, whose CRC-32 and length ISA-L checks.
        state_->crc_flag = ISAL_GZIP_NO_HDR_VER;
        return true;
      }
      in.remove_prefix(header_.size() - num_old);
      // The fields of text have no bound of their own.
      if (header_.size() > kMaxHeaderBytes) throw CorruptStream("its header is longer than 1 MiB");
    }
    return false;
  }

  static void check(int result) {
    switch (result) {
      case ISAL_DECOMP_OK:
        return;
      case ISAL_INVALID_BLOCK:
        throw CorruptStream("invalid deflate block");
      case ISAL_INVALID_SYMBOL:
        throw CorruptStream("invalid code in a deflate block");
      case ISAL_INVALID_LOOKBACK:
        throw CorruptStream("a distance in a deflate block is too far back");
      case ISAL_INCORRECT_CHECKSUM:
        throw CorruptStream("incorrect CRC-32 or length");
      case ISAL_INVALID_WRAPPER:
        throw CorruptStream("no gzip member starts here");
      case ISAL_UNSUPPORTED_METHOD:
        throw CorruptStream("unknown compression method");
      default:
        throw CorruptStream("corrupt stream (ISA-L code " + std::to_string(result) + ")");
    }
  }

  static constexpr size_t kMaxHeaderBytes = 1 << 20;

  std::unique_ptr<inflate_state> state_;  // 80 KiB
  std::string header_;                    // of a header that is not complete
  bool in_header_ = true;
};
#endif

}  // namespace

std::unique_ptr<StreamDecoder> make_gzip_decoder() {
#ifdef WEFT_HAVE_ISAL
  const char* wanted = std::getenv("WEFT_GZIP");
  if (wanted == nullptr || std::string_view(wanted) != "zlib")
    return std::make_unique<IsalDecoder>();
#endif
  return std::make_unique<ZlibDecoder>();
}

}  // namespace weft
