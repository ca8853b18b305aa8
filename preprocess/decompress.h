// Streaming decoders for .gz, .xz, .zst and .bz2, each a thin cover over its library. Every format
// may hold several members, streams or frames one after another, as `cat a.gz b.gz` makes them.
#pragma once

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

// Why the bytes are not a sound stream, in the library's words. The caller adds file and offset.
struct CorruptStream : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Memory is bounded whatever the input: zstd windows up to 128 MiB (the format's own default
// limit), xz up to 512 MiB; input that needs more is LimitExceeded.
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

// How many first bytes of a file decoder_for() wants to see.
constexpr size_t kNumMagicBytes = 10;

// The decoder for a file that starts with `first_bytes`; null for plain text.
std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes);
// By the names that format() gives.
std::unique_ptr<StreamDecoder> make_decoder(std::string_view format);

}  // namespace weft
