// Locks the folder of a file that several processes read, change and replace: the table of
// algorithms and the ceilings of devices beside it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace weft {

// An exclusive lock on the file's folder. It leaves no file behind, and readers need no lock
// because the file is renamed into place. File systems without locks (some NFS mounts) go without:
// then two processes that add to the file at once may lose what one of them adds.
class FolderLock {
 public:
  // Makes the folder where it is missing, and waits for the lock. Throws std::system_error if the
  // folder cannot be opened.
  explicit FolderLock(const std::filesystem::path& file) {
    const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
    std::error_code ignored;  // open() has the better error
    std::filesystem::create_directories(folder, ignored);
    fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) {
      throw std::system_error(errno, std::generic_category(),
                              folder.string() + ": cannot open the folder");
    }
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() { close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace weft
