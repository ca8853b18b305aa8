#include "indexed_dataset/format/sidecars/dataset_locks.h"

#include <chrono>
#include <set>

namespace weft {

namespace fs = std::filesystem;

DatasetLocks::DatasetLocks(const std::vector<fs::path>& prefixes, const fs::path& held) {
  std::set<fs::path> paths;
  for (const fs::path& prefix : prefixes) paths.insert(dataset_lock_path(prefix));
  paths.erase(held);
  for (const fs::path& path : paths) locks_.try_emplace(path, path, std::chrono::seconds(2));
}

fs::path dataset_lock_path(const fs::path& prefix) { return prefix.string() + ".lock"; }

}  // namespace weft
