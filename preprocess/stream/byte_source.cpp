#include "preprocess/stream/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>

namespace weft {
namespace {

// The bytes of a file as they are, or of a range of it.
class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, const std::atomic<bool>& cancelled)
      // O_NONBLOCK: opening a named pipe that no process writes to would wait for ever; read()
      // waits instead, and can be cancelled.
      : FileSource(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), cancelled) {
    owns_fd_ = true;
  }
  FileSource(std::string name, int fd, const std::atomic<bool>& cancelled)
      : name_(std::move(name)), cancelled_(cancelled), fd_(fd) {
    if (fd_ < 0) fail("cannot open");
#ifdef POSIX_FADV_SEQUENTIAL
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);  // advice only: pipes refuse it
#endif
  }
  FileSource(const FileSource&) = delete;
  ~FileSource() override {
    if (owns_fd_) ::close(fd_);
  }

  // Gives only [begin, end), of a file that must have `file_bytes` bytes.
  void restrict_to(int64_t file_bytes, int64_t begin, int64_t end) {
    file_bytes_ = file_bytes;
    if (const int64_t now = size_now(); now != file_bytes) fail_as_changed(now);
    if (::lseek(fd_, begin, SEEK_SET) < 0) fail("cannot seek");
    num_bytes_left_ = end - begin;
  }

  size_t read(char* data, size_t size_bytes) override {
    size_bytes = static_cast<size_t>(
        std::min(static_cast<uint64_t>(size_bytes), static_cast<uint64_t>(num_bytes_left_)));
    for (;;) {
      pollfd waiting{fd_, POLLIN, 0};
      // 100 ms: a pipe that stays silent must not keep a stopped run alive.
      const int ready = ::poll(&waiting, 1, 100);
      if (cancelled_.load(std::memory_order_relaxed) ||
          interrupted_.load(std::memory_order_relaxed)) {
        throw ReadCancelled{};
      }
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      const ssize_t got = ::read(fd_, data, size_bytes);
      if (got == 0 && size_bytes > 0 && file_bytes_ >= 0) fail_as_changed(size_now());
      if (got >= 0) {
        num_bytes_taken_ += got;
        num_bytes_left_ -= got;
        return static_cast<size_t>(got);
      }
      if (errno != EINTR && errno != EAGAIN) fail("reading failed");
    }
  }
  int64_t num_bytes_taken() const override { return num_bytes_taken_; }
  void interrupt() noexcept override { interrupted_.store(true, std::memory_order_relaxed); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::system_error(errno, std::generic_category(), name_ + ": " + what);
  }
  int64_t size_now() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) fail("cannot read its size");
    return status.st_size;
  }
  [[noreturn]] void fail_as_changed(int64_t now_bytes) const {
    throw std::runtime_error(name_ + ": has " + std::to_string(now_bytes) + " bytes now and had " +
                             std::to_string(file_bytes_) +
                             " when the run began: inputs must not change during a run");
  }

  std::string name_;
  const std::atomic<bool>& cancelled_;
  std::atomic<bool> interrupted_{false};
  int fd_ = -1;
  bool owns_fd_ = false;
  int64_t num_bytes_taken_ = 0;
  int64_t num_bytes_left_ = std::numeric_limits<int64_t>::max();  // of the range
  int64_t file_bytes_ = -1;                                       // -1: any
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, const std::atomic<bool>& cancelled) {
  return std::make_unique<FileSource>(path, cancelled);
}

std::unique_ptr<ByteSource> open_standard_input(const std::atomic<bool>& cancelled) {
  return std::make_unique<FileSource>("<stdin>", STDIN_FILENO, cancelled);
}

std::unique_ptr<ByteSource> open_file_range(const std::string& path, int64_t file_bytes,
                                            int64_t begin, int64_t end,
                                            const std::atomic<bool>& cancelled) {
  if (begin < 0 || begin > end || end > file_bytes)
    throw std::logic_error("open_file_range: not a range of the file");
  auto source = std::make_unique<FileSource>(path, cancelled);
  source->restrict_to(file_bytes, begin, end);
  return source;
}

}  // namespace weft
