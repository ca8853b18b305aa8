#include "preprocess/stream/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "preprocess/stream/random_access_file.h"

namespace weft {
namespace {

// The bytes of the file as they are.
class FileSource final : public ByteSource {
 public:
  FileSource(const std::string& path, const std::atomic<bool>& cancelled)
      : name_(file_name(path)), cancelled_(cancelled) {
    // O_NONBLOCK: opening a named pipe that no process writes to would wait for ever; read() waits
    // instead, and can be cancelled.
    fd_ = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd_ < 0) fail("cannot open");
    owns_fd_ = path != "-";
#ifdef POSIX_FADV_SEQUENTIAL
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);  // advice only: pipes refuse it
#endif
  }
  FileSource(const FileSource&) = delete;
  ~FileSource() override {
    if (owns_fd_) ::close(fd_);
  }

  size_t read(char* data, size_t size_bytes) override {
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
      if (got >= 0) {
        num_bytes_taken_ += got;
        return static_cast<size_t>(got);
      }
      if (errno != EINTR && errno != EAGAIN) fail("reading failed");
    }
  }
  int64_t num_bytes_taken() const override { return num_bytes_taken_; }
  std::string format() const override { return "plain"; }
  void interrupt() noexcept override { interrupted_.store(true, std::memory_order_relaxed); }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::system_error(errno, std::generic_category(), name_ + ": " + what);
  }

  std::string name_;
  const std::atomic<bool>& cancelled_;
  std::atomic<bool> interrupted_{false};
  int fd_ = -1;
  bool owns_fd_ = false;
  int64_t num_bytes_taken_ = 0;
};

class FileRangeSource final : public ByteSource {
 public:
  FileRangeSource(const std::string& path, int64_t file_bytes, int64_t begin, int64_t end,
                  const std::atomic<bool>& cancelled)
      : file_(path), begin_(begin), end_(end), offset_(begin), cancelled_(cancelled) {
    if (file_.size_bytes() != file_bytes) {
      throw std::runtime_error(path + ": has " + std::to_string(file_.size_bytes()) +
                               " bytes now and had " + std::to_string(file_bytes) +
                               " when the run began: inputs must not change during a run");
    }
#ifdef POSIX_FADV_SEQUENTIAL
    file_.advise(POSIX_FADV_SEQUENTIAL);
#endif
  }

  size_t read(char* data, size_t size_bytes) override {
    if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
    const auto rest = static_cast<size_t>(end_ - offset_);
    if (rest == 0) return 0;
    const size_t got = file_.read_some(offset_, data, std::min(size_bytes, rest));
    if (got == 0) {
      throw std::runtime_error(file_.path() + ": ends at byte " + std::to_string(offset_) +
                               " and had " + std::to_string(file_.size_bytes()) +
                               " bytes when it was opened: inputs must not change during a run");
    }
    offset_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t num_bytes_taken() const override { return offset_ - begin_; }
  std::string format() const override { return "plain"; }

 private:
  RandomAccessFile file_;
  int64_t begin_, end_, offset_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path, const std::atomic<bool>& cancelled) {
  return std::make_unique<FileSource>(path, cancelled);
}

std::unique_ptr<ByteSource> open_file_range(const std::string& path, int64_t file_bytes,
                                            int64_t begin, int64_t end,
                                            const std::atomic<bool>& cancelled) {
  if (begin < 0 || begin > end || end > file_bytes)
    throw std::logic_error("open_file_range: not a range of the file");
  return std::make_unique<FileRangeSource>(path, file_bytes, begin, end, cancelled);
}

std::string file_name(const std::string& path) { return path == "-" ? "<stdin>" : path; }

}  // namespace weft
