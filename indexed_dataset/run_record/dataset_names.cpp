#include "indexed_dataset/run_record/dataset_names.h"

#include <algorithm>
#include <utility>

#include "indexed_dataset/order/blends/blend_schedule.h"

namespace weft {

DatasetNames::DatasetNames(const std::vector<std::string>& prefixes,
                           std::filesystem::path directory)
    : directory_(std::move(directory)) {
  for (const std::string& prefix : prefixes) {
    if (idxs_.contains(prefix)) continue;
    const auto [known, is_new] =
        by_files_.try_emplace(files_of_dataset((directory_ / prefix).string()), count());
    if (is_new) spellings_.emplace_back();
    spellings_[static_cast<size_t>(known->second)].push_back(prefix);
    idxs_[prefix] = known->second;
  }
}

std::vector<std::string> DatasetNames::prefixes() const {
  std::vector<std::string> prefixes;
  for (const std::vector<std::string>& of_dataset : spellings_)
    prefixes.push_back(of_dataset.front());
  return prefixes;
}

std::vector<int64_t> DatasetNames::named(const std::string& name) const {
  const auto exact = by_files_.find(files_of_dataset((directory_ / name).string()));
  if (exact != by_files_.end()) return {exact->second};
  const auto ends_so = [&](const std::string& spelling) {
    const std::filesystem::path whole = directory_ / spelling;
    return whole.lexically_normal().string().ends_with("/" + name) ||
           std::filesystem::weakly_canonical(whole).string().ends_with("/" + name);
  };
  std::vector<int64_t> named;
  for (int64_t i = 0; i < count(); ++i) {
    if (std::any_of(spellings(i).begin(), spellings(i).end(), ends_so)) named.push_back(i);
  }
  return named;
}

}  // namespace weft
