// The names of a run's datasets. A blend, or the parts of a run that was resumed, may spell one
// dataset in several ways, for example through a link; people name one by the end of its path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace weft {

class DatasetNames {
 public:
  // Relative prefixes and names begin in `directory`.
  DatasetNames(const std::vector<std::string>& prefixes, std::filesystem::path directory);

  int64_t count() const { return static_cast<int64_t>(spellings_.size()); }
  // Returns all prefixes that lead to the files of a dataset, in the order in which they were
  // given: the first one stands for it.
  const std::vector<std::string>& spellings(int64_t dataset_idx) const {
    return spellings_.at(static_cast<size_t>(dataset_idx));
  }
  const std::string& prefix(int64_t dataset_idx) const { return spellings(dataset_idx).front(); }
  std::vector<std::string> prefixes() const;  // of each dataset, its first spelling

  // Return the dataset, or its first spelling, by any of its spellings. Throw std::out_of_range for
  // a prefix that was not given.
  int64_t idx_of(const std::string& spelling) const { return idxs_.at(spelling); }
  const std::string& first_spelling(const std::string& spelling) const {
    return prefix(idx_of(spelling));
  }

  // Returns the datasets that `name` may mean: the one whose files it leads to, alone; else all
  // with a spelling that ends with it, behind a slash.
  std::vector<int64_t> named(const std::string& name) const;

 private:
  std::filesystem::path directory_;
  std::vector<std::vector<std::string>> spellings_;
  std::map<std::string, int64_t> idxs_;      // by spelling
  std::map<std::string, int64_t> by_files_;  // by files_of_dataset()
};

}  // namespace weft
