// Files of measurements in ~/.cache/weft, to which several processes add.
#pragma once

#include <chrono>
#include <filesystem>
#include <system_error>

#include "indexed_dataset/base/storage/lock_file.h"

namespace weft {

// Makes the file's folder where it is missing, and locks the file while the result lives. Readers
// need no lock, because the file is replaced as a whole. Throws std::system_error, or
// LockedByAnotherRun if another process holds the lock for longer than any should: it ended on
// another host, on a file system without flock, and its lock is there for good (lock_file.h).
//
// A process holds the lock while it reads and writes one small file, some milliseconds, so ten
// seconds are enough for hundreds of them.
inline LockFile lock_shared_file(const std::filesystem::path& file) {
  std::error_code ignored;  // creating the lock has the better error
  std::filesystem::create_directories(std::filesystem::absolute(file).parent_path(), ignored);
  return LockFile(file.string() + ".lock", std::chrono::seconds(10));
}

}  // namespace weft
