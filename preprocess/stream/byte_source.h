// Input of the data tools as a stream of plain bytes: files (or standard input), decompressed on
// the fly.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/compressed/decompress.h"

namespace weft {

// A stream of bytes read from front to back. Not thread-safe, but for interrupt().
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills at most `size_bytes` of `data`; 0 only at the end of the stream.
  // Throws std::system_error if reading fails, std::runtime_error (file and byte offset named) for
  // a compressed stream that is corrupt or ends too early, LimitExceeded, NeedsLargerWindow and
  // ReadCancelled.
  virtual size_t read(char* data, size_t size_bytes) = 0;
  // Bytes taken from the file so far: compressed ones where it is compressed. For progress.
  virtual int64_t num_bytes_taken() const = 0;
  // "plain", "gzip", "xz", "zstd" or "bzip2".
  virtual std::string format() const = 0;
  // From any thread: a read that waits for data, and every later one, throws ReadCancelled soon.
  // Sources that never wait need not do anything.
  virtual void interrupt() noexcept {}
};

// Thrown by a read that waits for data after `cancelled` was set, or after interrupt().
struct ReadCancelled {};

// 1 TiB: no corpus file of one piece is that large, every decompression bomb wants to be.
constexpr int64_t kDefaultMaxOutputBytes = int64_t{1} << 40;

struct DecodeOptions {
  // A compressed input that gives more is refused with LimitExceeded; plain ones may be larger.
  int64_t max_output_bytes = kDefaultMaxOutputBytes;
  // Compressed inputs are decompressed by a thread of their own, up to 4 MiB ahead.
  bool read_ahead = false;
  WindowLimits window{};
};

// Opens `path`, an https URL, or standard input for "-". The format is found by the first bytes,
// never by the name; but a file of a compressed format's name that is too short to be one is
// refused (std::runtime_error). `cancelled` must outlive the source; a read that waits (a pipe)
// looks at it several times a second.
std::unique_ptr<ByteSource> open_input(const std::string& path, const std::atomic<bool>& cancelled,
                                       const DecodeOptions& options = {});

// The plain or decompressed bytes of `raw`, by its first bytes, as open_input() does for a file:
// for bytes that come from elsewhere. Messages call it `name`. Waits for the first bytes.
std::unique_ptr<ByteSource> decode(std::unique_ptr<ByteSource> raw, const std::string& name,
                                   const DecodeOptions& options = {});

// The raw bytes [begin, end) of a regular file. A file that has not `file_bytes` bytes (any more)
// is refused: std::runtime_error.
std::unique_ptr<ByteSource> open_file_range(const std::string& path, int64_t file_bytes,
                                            int64_t begin, int64_t end,
                                            const std::atomic<bool>& cancelled);

// Throws std::system_error that names all `paths` that are missing (or else: all that are folders,
// or may not be read), so that a run does not learn of the last one after hours. Looks at no URL.
void check_inputs_can_be_opened(const std::vector<std::string>& paths);

// How messages call this input: its path, its URL without the query, or "<stdin>" for "-".
std::string display_name(const std::string& path);

}  // namespace weft
