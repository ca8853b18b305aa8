#include "indexed_dataset/format/sidecars/dataset_locks.h"

#include <chrono>
#include <set>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

namespace fs = std::filesystem;

DatasetLocks::DatasetLocks(const std::vector<fs::path>& prefixes, const fs::path& held) {
  std::set<fs::path> paths;
  for (const fs::path& prefix : prefixes) paths.insert(dataset_lock_path(prefix));
  paths.erase(held);
  for (const fs::path& path : paths) locks_.try_emplace(path, path, std::chrono::seconds(2));
}

void DatasetLocks::claim_parts(const fs::path& prefix, const std::string& command,
                               const std::vector<std::string>& suffixes) {
  LockFile& lock = locks_.at(dataset_lock_path(prefix));
  std::vector<fs::path> parts;
  for (const std::string& suffix : suffixes) {
    parts.emplace_back(prefix.string() + suffix + ".part");
    if (!fs::exists(fs::symlink_status(parts.back()))) continue;
    const auto writer = lock.find_writer(parts.back());
    if (writer == command) continue;
    throw std::invalid_argument(
        "'" + parts.back().string() + "' was left by " +
        (writer ? "weft-data " + *writer + ", which was killed; give that command again, or move it"
                : "another program or by an earlier version, and would be overwritten; move it") +
        " away, or choose another name for the dataset");
  }
  lock.add_files(command, parts);
}

void DatasetLocks::remove_left_parts(const fs::path& prefix, const std::string& command,
                                     const std::vector<std::string>& suffixes) const {
  const LockFile& lock = locks_.at(dataset_lock_path(prefix));
  for (const std::string& suffix : suffixes) {
    const fs::path part = prefix.string() + suffix + ".part";
    if (lock.find_writer(part) == command) remove_file(part);
  }
}

fs::path dataset_lock_path(const fs::path& prefix) { return prefix.string() + ".lock"; }

}  // namespace weft
