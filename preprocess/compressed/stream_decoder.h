// The interface of all decoders: a stream of compressed bytes goes in piece by piece, text comes
// out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace weft {

inline constexpr char kFetchAgain[] = "fetch or copy the file again";

// Says why the bytes are not a sound stream, in the library's words. The caller adds file, offset,
// and the advice behind it.
struct CorruptStream : std::runtime_error {
  explicit CorruptStream(const std::string& why, std::string the_advice = kFetchAgain)
      : std::runtime_error(why), advice(std::move(the_advice)) {}
  std::string advice;
};

// What one decoder may take. Beside it bzip2 holds 3.7 MB, and every decoder a few hundred kB of
// tables.
struct DecoderLimits {
  // 128 MiB: what zstd -d takes without --memory, twice the dictionary of xz -9.
  static constexpr int64_t kDefaultMaxBytes = int64_t{128} << 20;

  // Memory for the text that it looks back on: zstd's window, xz's dictionary (and with several
  // threads xz's blocks).
  int64_t max_bytes = kDefaultMaxBytes;
  int num_threads = 1;  // of xz
};

// Throws the LimitExceeded for input that needs more than may be taken.
[[noreturn]] void throw_window_too_large(int64_t needed_bytes, int64_t max_bytes);

// A decoder. Its memory is bounded whatever the input (DecoderLimits).
class StreamDecoder {
 public:
  struct Step {
    size_t num_consumed = 0, num_produced = 0;
  };
  virtual ~StreamDecoder() = default;
  // Consumes a part of `in` and fills a part of `out`. `end_of_input`: nothing follows `in`. No
  // progress with an empty `in` and not complete() means that the stream is cut off. Checksums are
  // checked. Throws CorruptStream and LimitExceeded.
  virtual Step decode(std::string_view in, std::span<char> out, bool end_of_input) = 0;
  // True where a file may end: after whole members only.
  virtual bool complete() const = 0;
  virtual std::string format() const = 0;
};

// Calls run() with `in` and `out` in a library's `stream`, as much of them as its 32-bit counters
// can take, and says how far it came.
template <typename LibraryStream, typename Run>
StreamDecoder::Step run_library(LibraryStream& stream, std::string_view in, std::span<char> out,
                                Run run) {
  constexpr size_t kMaxBytes = size_t{1} << 30;
  const size_t in_bytes = std::min(in.size(), kMaxBytes);
  const size_t out_bytes = std::min(out.size(), kMaxBytes);
  stream.next_in = reinterpret_cast<decltype(stream.next_in)>(const_cast<char*>(in.data()));
  stream.avail_in = static_cast<decltype(stream.avail_in)>(in_bytes);
  stream.next_out = reinterpret_cast<decltype(stream.next_out)>(out.data());
  stream.avail_out = static_cast<decltype(stream.avail_out)>(out_bytes);
  run();
  return {in_bytes - stream.avail_in, out_bytes - stream.avail_out};
}

}  // namespace weft
