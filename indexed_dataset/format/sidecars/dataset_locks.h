// Whatever gives files to a dataset holds PREFIX.lock meanwhile: a run's commit, a merge, a repair.
// Otherwise the .bin of one could come to stand under the .idx of another, whatever names the two
// were started with: --output-prefix o with the key a_b makes the dataset o_a_b_document, and so
// does o_a with the key b.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "indexed_dataset/base/storage/lock_file.h"

namespace weft {

class DatasetLocks {
 public:
  // Locks the datasets, in an order that all programs share. `held` is a lock file that this
  // process holds already, if there is one. Waits for two seconds, since a run also takes them for
  // a moment when it begins. Throws as LockFile does.
  explicit DatasetLocks(const std::vector<std::filesystem::path>& prefixes,
                        const std::filesystem::path& held = {});

 private:
  std::map<std::filesystem::path, LockFile> locks_;
};

// PREFIX.lock
std::filesystem::path dataset_lock_path(const std::filesystem::path& prefix);

}  // namespace weft
