#include "indexed_dataset/order/blends/data_paths.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/order/blends/blend_schedule.h"

namespace weft {
namespace {

// The lists of train, valid and test in the file of --per-split-data-args-path: texts or arrays.
std::array<std::vector<std::string>, 3> read_lists_of_splits(const std::string& path) {
  using SortedJson = nlohmann::json;
  const std::string option = "--per-split-data-args-path " + path;
  std::array<std::vector<std::string>, 3> lists;
  try {
    const SortedJson json = parse_json<SortedJson>(read_regular_file(path));
    for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
      const auto found = json.find(short_split_name(split));
      if (found == json.end() || found->is_null()) continue;
      lists[static_cast<size_t>(split)] = found->is_string()
                                              ? words_of(found->get<std::string>())
                                              : found->get<std::vector<std::string>>();
    }
  } catch (const SortedJson::exception& error) {
    throw_bad_option(
        option,
        std::string("not a JSON object of lists \"train\", \"valid\", \"test\": ") + error.what());
  }
  return lists;
}

// The values of one split's option, or those in the file of the option that has -path behind its
// name.
struct WeightedSplit {
  const char* option;
  const std::vector<std::string>& values;
  const std::string& path;
  bool empty() const { return values.empty() && path.empty(); }
};

std::array<WeightedSplit, 3> weighted_splits_of(const DataPaths& p) {
  return {{{"--train-weighted-split-paths", p.train_weighted_split_paths,
            p.train_weighted_split_paths_path},
           {"--valid-weighted-split-paths", p.valid_weighted_split_paths,
            p.valid_weighted_split_paths_path},
           {"--test-weighted-split-paths", p.test_weighted_split_paths,
            p.test_weighted_split_paths_path}}};
}

bool has_weighted_splits(const DataPaths& paths) {
  const auto splits = weighted_splits_of(paths);
  return std::any_of(splits.begin(), splits.end(),
                     [](const WeightedSplit& split) { return !split.empty(); });
}

// The ways to name datasets exclude each other.
void check_one_way(const DataPaths& p) {
  const std::pair<const char*, bool> ways[] = {
      {"--data-path", !p.data_path.empty()},
      {"--data-args-path", !p.data_args_path.empty()},
      {"--per-split-data-args-path", !p.per_split_data_args_path.empty()},
      {"--train/valid/test-data-path",
       !p.train_data_path.empty() || !p.valid_data_path.empty() || !p.test_data_path.empty()},
      {"--train/valid/test-weighted-split-paths", has_weighted_splits(p)},
  };
  std::string given;
  int count = 0;
  for (const auto& [name, is_given] : ways) {
    if (is_given) given += (count++ == 0 ? "" : " and ") + std::string(name);
  }
  if (count > 1) throw UsageError(given + " exclude each other: give the datasets in one way");
}

// A group of datasets, and the option that gave it, for messages.
struct GivenGroup {
  std::string option, value;
};

// Reads "GROUP" "GROUP" ..., as bigscience's program does.
std::vector<GivenGroup> read_groups(const std::string& path, const std::string& file_option) {
  const std::string text = read_text_file(path);
  std::vector<GivenGroup> groups;
  for (size_t at = 0; (at = text.find_first_not_of(" \t\r\n", at)) != std::string::npos;) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<int64_t>(at), '\n');
    const std::string option = file_option + ", line " + std::to_string(line);
    const size_t end = text[at] == '"' ? text.find('"', at + 1) : std::string::npos;
    if (end == std::string::npos)
      throw_bad_option(
          option,
          "each group of datasets must be in double quotes: \"NAME: WEIGHT BEGIN:END PREFIX, ...\"");
    groups.push_back({option, text.substr(at + 1, end - at - 1)});
    at = end + 1;
  }
  if (groups.empty()) throw_bad_option(file_option, "names no group of datasets");
  return groups;
}

std::vector<GivenGroup> given_groups(const WeightedSplit& split) {
  if (split.path.empty()) {
    std::vector<GivenGroup> groups;
    for (const std::string& value : split.values) groups.push_back({split.option, value});
    return groups;
  }
  const std::string option = split.option + std::string("-path ") + split.path;
  if (!split.values.empty())
    throw_bad_option(option,
                     std::string(split.option) + " already names the groups: give one of them");
  return read_groups(split.path, option);
}

std::vector<Blend> parse_groups(const WeightedSplit& split) {
  std::vector<Blend> groups;
  for (const auto& [option, value] : given_groups(split))
    groups.push_back(parse_weighted_split(value, option));
  return groups;
}

// --data-path, or its values in a file: one blend, of which --split says what each split reads.
SplitBlends from_list(const DataPaths& paths) {
  const bool is_file = paths.data_path.empty();
  const std::string option =
      is_file ? "--data-args-path " + paths.data_args_path : std::string("--data-path");
  const auto values = is_file ? words_of(read_text_file(paths.data_args_path)) : paths.data_path;
  if (values.empty()) throw_bad_option(option, "names no dataset");
  SplitBlends result;
  result.blends.fill({parse_blend(values, option)});
  return result;
}

// --train-weighted-split-paths and the like: groups, whose datasets each have a share of their own.
SplitBlends from_weighted_splits(const DataPaths& paths) {
  SplitBlends result;
  result.has_own_paths = true;
  const auto splits = weighted_splits_of(paths);
  for (size_t i = 0; i < splits.size(); ++i) result.blends[i] = parse_groups(splits[i]);
  if (result.of(Split::kTrain).size() > 1)
    throw_bad_option("--train-weighted-split-paths", "training has one group of datasets only");
  return result;
}

// --train-data-path and the like, or the three lists in a file: each split has whole datasets of
// its own.
SplitBlends from_split_lists(const DataPaths& paths) {
  const std::string& file = paths.per_split_data_args_path;
  std::array<std::vector<std::string>, 3> lists = {paths.train_data_path, paths.valid_data_path,
                                                   paths.test_data_path};
  if (!file.empty()) lists = read_lists_of_splits(file);
  SplitBlends result;
  result.has_own_paths = true;
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const auto& list = lists[static_cast<size_t>(split)];
    if (list.empty()) continue;
    const std::string name(short_split_name(split));
    Blend blend =
        parse_blend(list, file.empty() ? "--" + name + "-data-path" : file + ", \"" + name + "\"");
    blend.shares.assign(blend.prefixes.size(), {0.0, 1.0});
    // As in Megatron-Core: a single dataset of a split is not blended, whatever its weight.
    if (blend.prefixes.size() == 1) blend.weights.clear();
    result.blends[static_cast<size_t>(split)].push_back(std::move(blend));
  }
  if (result.prefixes().empty())
    throw UsageError(
        "--data-path is required: the PREFIX of PREFIX.bin and PREFIX.idx, or a blend of several");
  return result;
}

SplitBlends resolve_blends(const DataPaths& paths) {
  check_one_way(paths);
  if (!paths.data_path.empty() || !paths.data_args_path.empty()) return from_list(paths);
  return has_weighted_splits(paths) ? from_weighted_splits(paths) : from_split_lists(paths);
}

}  // namespace

bool DataPaths::empty() const {
  return data_path.empty() && train_data_path.empty() && valid_data_path.empty() &&
         test_data_path.empty() && data_args_path.empty() && per_split_data_args_path.empty() &&
         !has_weighted_splits(*this);
}

std::vector<std::string> SplitBlends::prefixes() const {
  std::vector<std::string> all;
  std::unordered_set<std::string> known;
  const auto add = [&](const Blend& blend) {
    for (const std::string& prefix : blend.prefixes) {
      if (known.insert(prefix).second) all.push_back(prefix);
    }
  };
  for (const auto& of_split : blends) {
    for (const Blend& blend : of_split) add(blend);
  }
  for (const BlendChange& change : changes) add(change.blend);
  return all;
}

SplitBlends resolve_data_paths(const DataPaths& paths) {
  SplitBlends blends = resolve_blends(paths);
  if (paths.blend_schedule.empty()) return blends;
  if (blends.of(Split::kTrain).empty())
    throw_bad_option("--blend-schedule", "no dataset is named for training");
  blends.changes = read_blend_schedule(paths.blend_schedule, blends.of(Split::kTrain).front());
  fit_to_blends(blends.changes, blends.blends, blends.has_own_paths);
  return blends;
}

}  // namespace weft
