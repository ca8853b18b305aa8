// A regular file read at offsets.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// Thread-safe. Throws std::system_error with the path if a system call fails.
class RandomAccessFile {
 public:
  explicit RandomAccessFile(const std::string& path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  ~RandomAccessFile();

  // At the time of opening.
  int64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }

  // At most `size_bytes` bytes from `offset`; 0 only at the end of the file.
  size_t read_some(int64_t offset, void* data, size_t size_bytes) const;
  // All of them, or false where the file ends before.
  bool read_at(int64_t offset, void* data, size_t size_bytes) const;
  // Whoever reads from front to back says so (the kernel reads ahead), or that he hops.
  void advise(int advice) const;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
};

}  // namespace weft
