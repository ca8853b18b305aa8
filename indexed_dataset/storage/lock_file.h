// A lock on an output name, so that two runs never write the same files.
#pragma once

#include <chrono>
#include <filesystem>

namespace weft {

// Holds NAME, locked, while it lives; the file is removed afterwards. The kernel drops the lock of
// a dead process, so a file that a killed run left behind is simply taken over.
class LockFile {
 public:
  // Throws LockedByAnotherRun naming host and process of the owner, if it still holds the lock
  // after `patience`: a killed process keeps its locks until the kernel has taken it apart, which
  // takes seconds for one that uses a GPU. std::system_error if the file cannot be made.
  explicit LockFile(std::filesystem::path path, std::chrono::milliseconds patience = {});
  ~LockFile();
  LockFile(const LockFile&) = delete;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace weft
