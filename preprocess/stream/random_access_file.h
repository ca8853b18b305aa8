// Files read at offsets.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// Something that has bytes at offsets; tests have others than files.
class RandomAccess {
 public:
  virtual ~RandomAccess() = default;
  virtual int64_t size_bytes() const = 0;
  // Reads all of them; false where the file ends before.
  virtual bool read_at(int64_t offset, void* data, size_t size_bytes) const = 0;
  // A reader says whether it goes from front to back, so that the kernel reads ahead, or hops.
  virtual void advise(int) const {}
};

// A regular file. Thread-safe. Throws std::system_error with the path if a system call fails.
class RandomAccessFile final : public RandomAccess {
 public:
  explicit RandomAccessFile(const std::string& path);
  RandomAccessFile(const RandomAccessFile&) = delete;
  ~RandomAccessFile() override;

  // At the time of opening.
  int64_t size_bytes() const override { return size_bytes_; }
  const std::string& path() const { return path_; }

  // At most `size_bytes` bytes from `offset`; 0 only at the end of the file.
  size_t read_some(int64_t offset, void* data, size_t size_bytes) const;
  bool read_at(int64_t offset, void* data, size_t size_bytes) const override;
  void advise(int advice) const override;

 private:
  std::string path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
};

}  // namespace weft
