// Index caches that Megatron itself wrote, for looking at runs that Weft did not train.
//
// Megatron never compares a cache with its data: a run has read what the cache of its arguments
// says, whatever the data are now. So such files are mapped as they are, and nothing is built.
// Their sizes and the numbers of datasets in a blend are checked here, and that a shuffle index has
// each sample once; other numbers that do not fit the data are found where they are used
// (GptDataset). Indexes do not depend on the tokenizer, but Megatron-Core's names do, and each of
// its versions describes it otherwise: files are found by what the rest of their description says.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/index_caches/blend_cache.h"
#include "indexed_dataset/order/index_caches/index_cache.h"

namespace weft {

class MegatronCache {
 public:
  // Reads the descriptions in the folder; one that is not there holds nothing. Files that cannot be
  // read, of another user for example, are left out: unread().
  explicit MegatronCache(std::filesystem::path folder);
  // Returns what kept the first such description from being read, and how many there are; mostly
  // "".
  std::string unread() const;

  // Returns nothing where the files are not there, or have a stamp of Weft's beside them
  // (index_cache.h). Throws std::runtime_error for files that do not fit the dataset as it is now.
  std::optional<CachedIndex> find_index(const IndexDescription& description,
                                        const DatasetReader& reader,
                                        const GptIndexOptions& options) const;
  // Returns the numbers of samples ("None" for one epoch) of caches whose descriptions differ from
  // this one in that number alone: of those that have no stamp, or with `of_weft` of those that
  // Weft has completed.
  std::vector<std::string> find_other_sizes(const IndexDescription& description,
                                            bool of_weft) const;
  // Returns the stamp of a writer of Weft's that has begun with the files which are described so,
  // and has not completed them, as it was killed: what Megatron had written under these names may
  // be gone.
  std::optional<std::filesystem::path> find_begun(const IndexDescription& description) const;
  std::optional<std::filesystem::path> find_begun(const nlohmann::ordered_json& blend,
                                                  Split split) const;
  // Does the same as find_index() for the blending index of Megatron-Core, which is the only one
  // that is kept in files.
  std::optional<CachedBlend> find_blend(const nlohmann::ordered_json& description, int64_t size,
                                        size_t num_datasets) const;

 private:
  // Returns the beginning of the names of the files that are described so and have no stamp. Throws
  // std::runtime_error where several do.
  std::optional<std::string> find_base(const std::string& key, const std::string& stamp) const;
  std::optional<CacheNames> find_names(const IndexDescription& description) const;
  std::optional<std::filesystem::path> find_begun(const std::string& key,
                                                  const std::string& stamp_end,
                                                  const std::string& own_stamp) const;

  std::filesystem::path folder_;
  // The beginnings of names of files, by what their descriptions say without the tokenizer.
  std::multimap<std::string, std::string> names_;
  // The same by what they say without the number of samples, too; and that number.
  struct OfSize {
    std::string num_samples, base;
  };
  std::multimap<std::string, OfSize> sizes_;
  std::string first_unread_;
  int64_t num_unread_ = 0;
};

// Returns where a program of this order keeps the caches of a dataset without --data-cache-path.
std::filesystem::path default_cache_folder(OrderKind order, const std::filesystem::path& prefix);

}  // namespace weft
