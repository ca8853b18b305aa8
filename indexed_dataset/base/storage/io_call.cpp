#include "indexed_dataset/base/storage/io_call.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace weft {
namespace io_call {

void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string quoted(const std::filesystem::path& path) {
  std::string text(1, '\'');
  return text.append(path.string()).append(1, '\'');
}

int open_file(const std::filesystem::path& path, int flags, mode_t mode) {
  int fd = -1;
  if (!is_made_to_fail()) {
    do {
      fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    } while (fd < 0 && errno == EINTR);
  }
  if (fd < 0)
    throw_errno("cannot open " + quoted(path) +
                ((flags & O_ACCMODE) == O_RDONLY ? "" : " for writing"));
  return fd;
}

uint32_t file_system_magic(const std::filesystem::path& path) {
#ifdef WEFT_TEST_HOOKS
  if (const char* answer = std::getenv("WEFT_STATFS_TYPE")) {
    return static_cast<uint32_t>(std::strtoul(answer, nullptr, 0));
  }
#endif
  struct statfs status {};
  if (is_made_to_fail() || ::statfs(path.c_str(), &status) != 0) {
    throw_errno("cannot stat the file system of " + quoted(path));
  }
  return static_cast<uint32_t>(status.f_type);
}

int64_t size_of(int fd, const std::filesystem::path& path) {
  struct stat status {};
  if (is_made_to_fail() || ::fstat(fd, &status) != 0) throw_errno("cannot stat " + quoted(path));
  return status.st_size;
}

}  // namespace io_call
}  // namespace weft
