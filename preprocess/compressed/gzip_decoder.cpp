#include "preprocess/compressed/gzip_decoder.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <optional>

#ifdef WEFT_HAVE_ISAL
#include <isa-l/igzip_lib.h>
#endif

namespace weft {
namespace {

// The counters of both libraries are 32-bit.
uint32_t clamp_step(size_t size_bytes) {
  return static_cast<uint32_t>(std::min<size_t>(size_bytes, 1 << 30));
}

// What both have in common: one member after another, zeros between them.
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
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = clamp_step(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = clamp_step(out.size());
    const size_t had_in = stream_.avail_in, had_out = stream_.avail_out;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) {
      complete_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw CorruptStream(stream_.msg != nullptr ? stream_.msg : "corrupt stream");
    }
    return {had_in - stream_.avail_in, had_out - stream_.avail_out};
  }

  z_stream stream_{};
};

#ifdef WEFT_HAVE_ISAL
// A member's header (RFC 1952, section 2.3), collected until it is whole. ISA-L reads headers too,
// but forgets the flags of one that is cut by the end of its input.
class GzipHeader {
 public:
  // Takes the header's bytes, or all there are, from `in`; true when the header is complete. The
  // next call begins another header. Throws CorruptStream.
  bool take(std::string_view& in) {
    while (!in.empty()) {
      // Most headers are short, and what lies behind is copied in vain.
      const size_t num_old = bytes_.size(), step = std::max<size_t>(num_old, 64);
      bytes_.append(in.substr(0, step));
      const auto size = find_end();
      in.remove_prefix((size ? *size : bytes_.size()) - num_old);
      if (size) {
        bytes_.clear();
        return true;
      }
      // The fields of text have no bound of their own.
      if (bytes_.size() > kMaxBytes) throw CorruptStream("its header is longer than 1 MiB");
    }
    return false;
  }

 private:
  static constexpr size_t kMaxBytes = 1 << 20;
  enum Flags { kHeaderCrc = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xE0 };

  unsigned byte_at(size_t i) const { return static_cast<uint8_t>(bytes_[i]); }

  // The header's size; nothing if it goes on.
  std::optional<size_t> find_end() const {
    if (bytes_.size() >= 2 && (byte_at(0) != 0x1F || byte_at(1) != 0x8B))
      throw CorruptStream("no gzip member starts here");
    size_t size = 10;
    if (bytes_.size() < size) return std::nullopt;
    if (byte_at(2) != 8) throw CorruptStream("unknown compression method");
    const unsigned flags = byte_at(3);
    if ((flags & kReserved) != 0) throw CorruptStream("unknown header flags set");
    if ((flags & kExtra) != 0) {
      if (bytes_.size() < size + 2) return std::nullopt;
      size += 2 + byte_at(size) + byte_at(size + 1) * 256;
    }
    for (const Flags text : {kName, kComment}) {
      if ((flags & text) == 0) continue;
      if (size >= bytes_.size()) return std::nullopt;
      const size_t end = bytes_.find('\0', size);
      if (end == std::string::npos) return std::nullopt;
      size = end + 1;
    }
    if ((flags & kHeaderCrc) != 0) {
      if (bytes_.size() < size + 2) return std::nullopt;
      const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes_.data()), size) & 0xFFFF;
      if (crc != byte_at(size) + byte_at(size + 1) * 256)
        throw CorruptStream("header checksum is wrong");
      size += 2;
    }
    if (bytes_.size() < size) return std::nullopt;
    return size;
  }

  std::string bytes_;
};

class IsalDecoder final : public GzipDecoder {
 public:
  IsalDecoder() : state_(std::make_unique<inflate_state>()) { begin_member(); }

 private:
  void begin_member() override {
    isal_inflate_init(state_.get());
    // The deflate data and the trailer, whose CRC-32 and length ISA-L checks.
    state_->crc_flag = ISAL_GZIP_NO_HDR_VER;
    in_header_ = true;
  }

  Step decode_member(std::string_view in, std::span<char> out) override {
    const size_t had_in = in.size();
    if (in_header_) {
      in_header_ = !header_.take(in);
      if (in_header_) return {had_in, 0};
    }
    const size_t num_header = had_in - in.size();
    state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(in.data()));
    state_->avail_in = clamp_step(in.size());
    state_->next_out = reinterpret_cast<uint8_t*>(out.data());
    state_->avail_out = clamp_step(out.size());
    const size_t given_in = state_->avail_in, given_out = state_->avail_out;
    check(isal_inflate(state_.get()));
    complete_ = state_->block_state == ISAL_BLOCK_FINISH;
    return {num_header + given_in - state_->avail_in, given_out - state_->avail_out};
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
      default:
        throw CorruptStream("corrupt stream (ISA-L code " + std::to_string(result) + ")");
    }
  }

  std::unique_ptr<inflate_state> state_;  // 80 KiB
  GzipHeader header_;
  bool in_header_ = true;
};
#endif

}  // namespace

GzipLibrary default_gzip_library() {
#ifdef WEFT_HAVE_ISAL
  const char* wanted = std::getenv("WEFT_GZIP");
  if (wanted == nullptr || std::string_view(wanted) != "zlib") return GzipLibrary::kIsal;
#endif
  return GzipLibrary::kZlib;
}

std::unique_ptr<StreamDecoder> make_gzip_decoder([[maybe_unused]] GzipLibrary library) {
#ifdef WEFT_HAVE_ISAL
  if (library == GzipLibrary::kIsal) return std::make_unique<IsalDecoder>();
#endif
  return std::make_unique<ZlibDecoder>();
}

}  // namespace weft
