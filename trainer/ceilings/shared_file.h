// Files of measurements in ~/.cache/weft, to which several processes add.
#pragma once

#include <chrono>
#include <filesystem>
#include <system_error>

#include "indexed_dataset/base/storage/lock_file.h"

namespace weft {

// Makes the file's folder where it is missing, and locks the file while the result lives. Readers
// need no lock, because the file is replaced as a whole. Throws std::system_error, or
// LockedByAnotherRun if another process holds the lock for a minute.
inline LockFile lock_shared_file(const std::filesystem::path& file) {
  std::error_code ignored;  // creating the lock has the better error
  std::filesystem::create_directories(std::filesystem::absolute(file).parent_path(), ignored);
  return LockFile(file.string() + ".lock", std::chrono::minutes(1));
}

}  // namespace weft
