#include "indexed_dataset/base/storage/lock_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <regex>
#include <string>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/io_call.h"

namespace weft {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw std::system_error(errno, std::generic_category(),
                          std::string(what) + " '" + path.string() + "'");
}

// The first line.
std::string text_of(int fd) {
  std::array<char, 512> bytes{};
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size() - 1, 0);
  const std::string text(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  return text.substr(0, text.find('\n'));
}

std::string host_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string own_text() {
  return "process " + std::to_string(::getpid()) + " on " + host_name() + "\n";
}

struct Owner {
  pid_t process = 0;
  std::string host;
};

// Reads what own_text() has written; another text gives nothing.
std::optional<Owner> owner_of(const std::string& text) {
  static const std::regex pattern(R"(process (\d{1,9}) on (.*))");
  std::smatch match;
  if (!std::regex_match(text, match, pattern)) return std::nullopt;
  return Owner{static_cast<pid_t>(std::stol(match[1])), match[2]};
}

bool has_ended(const Owner& owner) {
  return owner.host == host_name() && ::kill(owner.process, 0) != 0 && errno == ESRCH;
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
    Attempt attempt = Attempt::kAgain;
    try {
      attempt = try_lock();
      if (attempt == Attempt::kLocked) break;
      if (attempt == Attempt::kHeldByAnother && std::chrono::steady_clock::now() >= deadline) {
        throw_locked();
      }
    } catch (...) {
      if (fd_ >= 0) ::close(fd_);
      throw;
    }
    ::close(fd_);
    if (attempt == Attempt::kHeldByAnother) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  // The text only helps people where there is flock; there the lock holds without it (a full disk
  // is reported by the files that matter).
  const std::string text = own_text();
  const bool is_written = ::pwrite(fd_, text.data(), text.size(), 0) == std::ssize(text);
  [[maybe_unused]] const int truncated = ::ftruncate(fd_, is_written ? std::ssize(text) : 0);
}

LockFile::Attempt LockFile::try_lock() {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  fd_ = ::open(path_.c_str(), kFlags | O_EXCL, 0644);
  const bool is_new = fd_ >= 0;
  if (!is_new && errno == EEXIST) fd_ = ::open(path_.c_str(), kFlags, 0644);
  if (fd_ < 0) fail(path_, "cannot create lock file");
  refuse_foreign_file();
  if (!io_call::is_made_to_fail() && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
    return still_has_its_name(fd_, path_) ? Attempt::kLocked : Attempt::kAgain;
  }
  if (errno == EWOULDBLOCK) return Attempt::kHeldByAnother;
  if (errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK) return try_lock_by_name(is_new);
  fail(path_, "cannot lock");
}

LockFile::Attempt LockFile::try_lock_by_name(bool is_new) {
  has_flock_ = false;
  if (is_new) return Attempt::kLocked;
  const auto owner = owner_of(text_of(fd_));
  if (!owner || !has_ended(*owner)) return Attempt::kHeldByAnother;
  // Another process may take it over at the same time, and then this name is its new lock.
  const std::string old = path_.string() + "." + std::to_string(::getpid());
  if (::rename(path_.c_str(), old.c_str()) != 0) return Attempt::kAgain;
  if (!still_has_its_name(fd_, old)) {
    // If this fails, its owner notices that the name is gone, as any owner of a lock does.
    [[maybe_unused]] const int linked = ::link(old.c_str(), path_.c_str());
  }
  ::unlink(old.c_str());
  return Attempt::kAgain;
}

void LockFile::refuse_foreign_file() const {
  // The size comes first: the owner of an empty one may write its text at this moment.
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && status.st_size == 0) return;
  if (owner_of(text_of(fd_))) return;
  throw UsageError("'" + path_.string() +
                   "' is not a lock file of weft, but would be used, and removed, as "
                   "one; choose another name for the output");
}

void LockFile::throw_locked() const {
  const std::string owner = text_of(fd_);
  const std::string hint =
      has_flock_
          ? "wait for it, stop it, or choose another name"
          : "wait for it, stop it, or choose another name; if it has ended, remove the file, "
            "and the other .lock files that it may have left in the folder: this file system has no flock "
            "(Lustre has it when mounted with -o flock), so a lock outlives a killed process";
  throw LockedByAnotherRun("'" + path_.string() +
                           "' is locked: " + (owner.empty() ? "another run" : owner) +
                           " is writing this output; " + hint);
}

LockFile::~LockFile() {
  // While locked, so that no other process holds a lock on this name.
  if (still_has_its_name(fd_, path_)) ::unlink(path_.c_str());
  ::close(fd_);
}

}  // namespace weft
