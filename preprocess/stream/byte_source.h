// The interface through which all input is read, a stream of bytes from front to back, and its
// plainest form: a file, a range of a file, or standard input.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace weft {

// A stream of bytes read from front to back. Not thread-safe, but for interrupt().
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills at most `size_bytes` of `data`; 0 only at the end of the stream.
  // Throws std::system_error if reading fails, std::runtime_error (file and byte offset named) for
  // a compressed stream that is corrupt or ends too early, LimitExceeded, ReadCancelled.
  virtual size_t read(char* data, size_t size_bytes) = 0;
  // Bytes taken from the file so far: compressed ones where it is compressed. For progress.
  virtual int64_t num_bytes_taken() const = 0;
  // From any thread: a read that waits for data, and every later one, throws ReadCancelled soon.
  // Sources that never wait need not do anything.
  virtual void interrupt() noexcept {}
};

// Thrown by a read that waits for data after `cancelled` was set, or after interrupt().
struct ReadCancelled {};

// The bytes of a file as they are, or of standard input. Throws std::system_error. `cancelled` must
// outlive the source; a read that waits (a pipe) looks at it several times a second.
std::unique_ptr<ByteSource> open_file(const std::string& path, const std::atomic<bool>& cancelled);
std::unique_ptr<ByteSource> open_standard_input(const std::atomic<bool>& cancelled);

// The raw bytes [begin, end) of a regular file. A file that has not `file_bytes` bytes (any more)
// is refused: std::runtime_error.
std::unique_ptr<ByteSource> open_file_range(const std::string& path, int64_t file_bytes,
                                            int64_t begin, int64_t end,
                                            const std::atomic<bool>& cancelled);

}  // namespace weft
