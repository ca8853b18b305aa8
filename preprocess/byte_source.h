// Input of the data tools as a stream of plain bytes: files (or standard input), decompressed on
// the fly.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

// A stream of bytes read from front to back. Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills at most `size_bytes` of `data`; 0 only at the end of the stream.
  // Throws std::system_error if reading fails, std::runtime_error (file and byte offset named) for
  // a compressed stream that is corrupt or ends too early, and ReadCancelled.
  virtual size_t read(char* data, size_t size_bytes) = 0;
  // Bytes taken from the file so far: compressed ones where it is compressed. For progress.
  virtual int64_t num_bytes_taken() const = 0;
  // "plain", "gzip", "xz", "zstd" or "bzip2".
  virtual std::string format() const = 0;
};

// Thrown by a read that waits for data after `cancelled` was set.
struct ReadCancelled {};

// Opens `path`, or standard input for "-". The format is found by the first bytes, never by the
// name; but a file of a compressed format's name that is too short to be one is refused
// (std::runtime_error). `cancelled` must outlive the source; a read that waits (a pipe) looks at it
// several times a second.
std::unique_ptr<ByteSource> open_input(const std::string& path, const std::atomic<bool>& cancelled);

// Throws std::system_error that names all `paths` that are missing (or else: all that are folders,
// or may not be read), so that a run does not learn of the last one after hours.
void check_inputs_can_be_opened(const std::vector<std::string>& paths);

// How messages call this input: its path, or "<stdin>" for "-".
std::string display_name(const std::string& path);

}  // namespace weft
