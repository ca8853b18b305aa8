#include "indexed_dataset/beside/dataset_locks.h"

#include <chrono>
#include <set>
#include <stdexcept>

namespace weft {

namespace fs = std::filesystem;

DatasetLocks::DatasetLocks(const std::vector<fs::path>& prefixes, const fs::path& held) {
  std::set<fs::path> paths;
  for (const fs::path& prefix : prefixes) paths.insert(dataset_lock_path(prefix));
  paths.erase(held);
  for (const fs::path& path : paths) {
    locks_.emplace_back(path, std::chrono::seconds(2));
    was_left_behind_ |= locks_.back().was_left_behind();
  }
}

void DatasetLocks::check_is_ours(const fs::path& part) const {
  if (was_left_behind_ || !fs::exists(fs::symlink_status(part))) return;
  throw std::invalid_argument("'" + part.string() +
                              "' was not left by weft-data, and would be overwritten; move it "
                              "away, or choose another name for the dataset");
}

fs::path dataset_lock_path(const fs::path& prefix) { return prefix.string() + ".lock"; }

}  // namespace weft
