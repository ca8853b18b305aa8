// Streaming decoders for .gz, .xz, .zst and .bz2, each a thin cover over its library. Every format
// may hold several members, streams or frames one after another, as `cat a.gz b.gz` makes them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

inline constexpr char kFetchAgain[] = "fetch or copy the file again";

// Says why the bytes are not a sound stream, in the library's words. The caller adds file, offset,
// and the advice behind it.
struct CorruptStream : std::runtime_error {
  explicit CorruptStream(const std::string& why, std::string the_advice = kFetchAgain)
      : std::runtime_error(why), advice(std::move(the_advice)) {}
  std::string advice;
};

// What a decoder may take for the text that it looks back on: zstd's window, xz's dictionary. All
// else that decoders hold is below 2 MiB.
struct WindowLimits {
  // 128 MiB: what zstd -d takes without --memory, twice the dictionary of xz -9.
  static constexpr int64_t kDefaultMaxBytes = int64_t{128} << 20;

  int64_t size_bytes = kDefaultMaxBytes;  // input that needs more is NeedsLargerWindow, and
  int64_t max_bytes = kDefaultMaxBytes;   // LimitExceeded where even this would not do
  // Of the longest block of an xz file, if its index is to be believed: where this is more than
  // size_bytes, there is no need to decode so much before one says so. 0: not known.
  int64_t longest_block_bytes = 0;
};

// The input can be decoded with a window of `size_bytes`, not above WindowLimits::max_bytes.
struct NeedsLargerWindow {
  int64_t size_bytes;
};

// What LimitExceeded says where a larger one is needed.
[[noreturn]] void throw_window_too_large(int64_t max_bytes);

// Memory is bounded whatever the input (WindowLimits).
class StreamDecoder {
 public:
  struct Step {
    size_t num_consumed = 0, num_produced = 0;
  };
  virtual ~StreamDecoder() = default;
  // Consumes a part of `in` and fills a part of `out`. `end_of_input`: nothing follows `in`. No
  // progress with an empty `in` and not complete() means that the stream is cut off. Checksums are
  // checked. Throws CorruptStream, LimitExceeded and NeedsLargerWindow.
  virtual Step decode(std::string_view in, std::span<char> out, bool end_of_input) = 0;
  // True where a file may end: after whole members only.
  virtual bool complete() const = 0;
  virtual std::string format() const = 0;
};

// How many first bytes of a file decoder_for() wants to see.
constexpr size_t kNumMagicBytes = 10;

// The decoder for a file that starts with `first_bytes`; null for plain text.
std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes,
                                           const WindowLimits& window = {});
// By the names that format() gives.
std::unique_ptr<StreamDecoder> make_decoder(std::string_view format,
                                            const WindowLimits& window = {});

}  // namespace weft
