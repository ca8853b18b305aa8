#include "preprocess/stream/random_access_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace weft {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw std::system_error(errno, std::generic_category(), path + ": " + what);
}

}  // namespace

RandomAccessFile::RandomAccessFile(const std::string& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail(path, "cannot open");
  struct stat status {};
  if (::fstat(fd_, &status) != 0) {
    ::close(fd_);
    fail(path, "cannot read its size");
  }
  size_bytes_ = status.st_size;
}

RandomAccessFile::~RandomAccessFile() { ::close(fd_); }

size_t RandomAccessFile::read_some(int64_t offset, void* data, size_t size_bytes) const {
  for (;;) {
    const ssize_t got = ::pread(fd_, data, size_bytes, offset);
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail(path_, "reading failed");
  }
}

bool RandomAccessFile::read_at(int64_t offset, void* data, size_t size_bytes) const {
  auto* to = static_cast<char*>(data);
  while (size_bytes > 0) {
    const size_t got = read_some(offset, to, size_bytes);
    if (got == 0) return false;
    to += got;
    offset += static_cast<int64_t>(got);
    size_bytes -= got;
  }
  return true;
}

void RandomAccessFile::advise(int advice) const {
#ifdef POSIX_FADV_SEQUENTIAL
  ::posix_fadvise(fd_, 0, 0, advice);  // advice only: an error changes nothing
#endif
}

}  // namespace weft
