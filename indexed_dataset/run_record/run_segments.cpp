#include "indexed_dataset/run_record/run_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/run_record/sample_query.h"

namespace weft {
namespace {

// Returns the identity of each dataset of a split by its prefix.
std::map<std::string, const DatasetIdentity*> identities_of(const RunSegment& segment,
                                                            Split split) {
  std::map<std::string, const DatasetIdentity*> all, of_split;
  const std::vector<std::string> prefixes = segment.order.blends.prefixes();
  for (size_t i = 0; i < segment.datasets.size(); ++i) all[prefixes[i]] = &segment.datasets[i];
  SplitBlends blends = segment.order.blends;
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other != split) blends.blends[static_cast<size_t>(other)].clear();
  }
  if (split != Split::kTrain) blends.changes.clear();
  for (const std::string& prefix : blends.prefixes()) {
    if (const auto found = all.find(prefix); found != all.end()) of_split.insert(*found);
  }
  return of_split;
}

}  // namespace

DatasetNames dataset_names_of(const std::vector<RunSegment>& segments) {
  std::vector<std::string> prefixes;
  for (const RunSegment& segment : segments) {
    const std::vector<std::string> of_segment = segment.order.blends.prefixes();
    prefixes.insert(prefixes.end(), of_segment.begin(), of_segment.end());
  }
  return {prefixes, std::filesystem::current_path()};
}

bool have_equal_samples(const RunSegment& a, const RunSegment& b, Split split) {
  const auto of_b = identities_of(b, split);
  for (const auto& [prefix, identity] : identities_of(a, split)) {
    const auto found = of_b.find(prefix);
    if (found != of_b.end() && !same_bytes(*identity, *found->second)) return false;
  }
  return differences_in_samples(a.order, b.order, split).empty();
}

void check_same_datasets(const RunSegment& segment, Split split, const std::string& group) {
  const std::vector<std::string>& named = find_group(segment.order.blends, split, group).prefixes;
  std::vector<std::pair<std::string, const DatasetIdentity*>> read;
  for (const auto& [prefix, identity] : identities_of(segment, split)) {
    // Training has one group, whose blend may change.
    if (split == Split::kTrain || std::find(named.begin(), named.end(), prefix) != named.end())
      read.emplace_back(prefix, identity);
  }
  const auto num_threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  parallel_for(std::ssize(read), num_threads, [&](int64_t i) {
    const auto& [prefix, identity] = read[static_cast<size_t>(i)];
    if (!std::filesystem::exists(prefix + ".idx")) {
      throw std::system_error(
          std::make_error_code(std::errc::no_such_file_or_directory),
          fmt::format(
              "the run read the dataset {}, which is not there; was it moved? Link both of its "
              "files to this place: ln -s NEW.idx {}.idx, and the same for .bin",
              prefix, prefix));
    }
    check_same_dataset(prefix, *identity);
  });
}

}  // namespace weft
