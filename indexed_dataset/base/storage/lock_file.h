// A lock on an output name, so that two runs never write the same files. The file is one line of
// text for people and for mounts without flock: "process 4711 on node3".
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace weft {

// Holds NAME, locked, while it lives; the file is removed afterwards. The kernel drops the lock of
// a dead process, so a file that a killed run left behind is simply taken over.
//
// Some mounts have no flock (Lustre without "-o flock"). There the existence of the file is the
// lock: one that a killed process of this host left is taken over, one of another host must be
// removed by hand, which the message says.
class LockFile {
 public:
  // Throws LockedByAnotherRun naming host and process of the owner, if it still holds the lock
  // after `patience`: a killed process keeps its locks until the kernel has taken it apart, which
  // takes seconds for one that uses a GPU. UsageError if the file is not a lock file of
  // ours (Cargo.lock); it is left alone. std::system_error if the file cannot be made.
  explicit LockFile(std::filesystem::path path, std::chrono::milliseconds patience = {});
  ~LockFile();
  LockFile(const LockFile&) = delete;

 private:
  enum class Attempt { kLocked, kHeldByAnother, kAgain };
  Attempt try_lock();
  Attempt try_lock_by_name(bool is_new);
  void refuse_foreign_file() const;
  [[noreturn]] void throw_locked() const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool has_flock_ = true;
};

}  // namespace weft
