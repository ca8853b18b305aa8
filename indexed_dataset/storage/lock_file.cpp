#include "indexed_dataset/storage/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <thread>

#include "indexed_dataset/process/exit_code.h"

namespace weft {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw std::system_error(errno, std::generic_category(),
                          std::string(what) + " '" + path.string() + "'");
}

std::string owner_text(int fd) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string owner(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return owner.substr(0, owner.find('\n'));
}

std::string own_text() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "process " + std::to_string(::getpid()) + " on " + host.data() + "\n";
}

// The name may have been removed by its former owner between open and lock: then the lock is on a
// nameless file.
bool still_has_its_name(int fd, const std::filesystem::path& path) {
  struct stat ours {
  }, named{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

}  // namespace

LockFile::LockFile(std::filesystem::path path, std::chrono::milliseconds patience)
    : path_(std::move(path)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd_ < 0) fail(path_, "cannot create lock file");
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string owner = owner_text(fd_);
      ::close(fd_);
      errno = error;
      if (error != EWOULDBLOCK) fail(path_, "cannot lock");
      if (std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        continue;
      }
      throw LockedByAnotherRun(
          "'" + path_.string() + "' is locked: " + (owner.empty() ? "another run" : owner) +
          " is writing this output; wait for it, stop it, or choose another name");
    }
    if (still_has_its_name(fd_, path_)) break;
    ::close(fd_);
  }
  const std::string text = own_text();
  if (::ftruncate(fd_, 0) != 0 || ::pwrite(fd_, text.data(), text.size(), 0) < 0) {
    // The text only helps people; the lock holds without it (a full disk is reported by the files
    // that matter).
    [[maybe_unused]] const int truncated = ::ftruncate(fd_, 0);
  }
}

LockFile::~LockFile() {
  ::unlink(path_.c_str());  // while locked, so that nobody else holds a lock on this name
  ::close(fd_);
}

}  // namespace weft
