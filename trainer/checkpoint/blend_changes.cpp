#include "trainer/checkpoint/blend_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "indexed_dataset/blends/blend_schedule.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "trainer/checkpoint/argument_changes.h"

namespace weft {

namespace {

// The words for an entry that only one of the two lists has.
constexpr const char* kNone = "none";

// A dataset of a blend.
struct Entry {
  std::string text;   // "GROUP: WEIGHT BEGIN:END PREFIX" as far as it has these
  std::string rules;  // all of the text but the prefix
  std::string prefix;
};

std::vector<Entry> entries_of(const Blend& blend) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    std::string rules = blend.name.empty() ? "" : blend.name + ": ";
    if (!blend.weights.empty()) rules += fmt::format("{} ", blend.weights[i]);
    if (!blend.shares.empty())
      rules += fmt::format("{}:{} ", blend.shares[i].first, blend.shares[i].second);
    entries.push_back({rules + blend.prefixes[i], rules, blend.prefixes[i]});
  }
  return entries;
}

std::vector<Entry> entries_of(const std::vector<Blend>& groups) {
  std::vector<Entry> all;
  for (const Blend& group : groups) {
    for (Entry& entry : entries_of(group)) all.push_back(std::move(entry));
  }
  return all;
}

// "was A when the checkpoint was saved and is B now"
std::string was_and_is(const std::string& saved, const std::string& ours) {
  return fmt::format("was {} when the checkpoint was saved and is {} now", saved, ours);
}

class Comparison {
 public:
  Comparison(const DataIdentity& saved, const DataIdentity& ours)
      : saved_(identities_of(saved)), ours_(identities_of(ours)) {}

  // Returns the first difference of two lists, and how many there are; nothing where they are equal.
  std::optional<std::string> difference(const std::vector<Entry>& saved,
                                        const std::vector<Entry>& ours) const {
    std::string first;
    int64_t count = 0;
    for (size_t i = 0; i < std::max(saved.size(), ours.size()); ++i) {
      const Entry* a = i < saved.size() ? &saved[i] : nullptr;
      const Entry* b = i < ours.size() ? &ours[i] : nullptr;
      if (a && b && a->rules == b->rules && is_same_dataset(a->prefix, b->prefix)) continue;
      if (count++ > 0) continue;
      first =
          fmt::format("dataset {} {}", i + 1, was_and_is(a ? a->text : kNone, b ? b->text : kNone));
    }
    if (count == 0) return std::nullopt;
    return count == 1 ? first : fmt::format("{} ({} datasets differ)", first, count);
  }

  // Equal bytes, or an equal name where the bytes are not known.
  bool is_same_dataset(const std::string& saved, const std::string& ours) const {
    const auto a = saved_.find(saved), b = ours_.find(ours);
    if (a == saved_.end() || b == ours_.end()) return saved == ours;
    return same_bytes(*a->second, *b->second);
  }

 private:
  using Identities = std::unordered_map<std::string, const DatasetIdentity*>;

  static Identities identities_of(const DataIdentity& data) {
    Identities identities;
    const std::vector<std::string> prefixes = data.blends.prefixes();
    for (size_t i = 0; i < std::min(prefixes.size(), data.datasets.size()); ++i)
      identities[prefixes[i]] = &data.datasets[i];
    return identities;
  }

  const Identities saved_, ours_;
};

// Pairs the names of datasets then and now. A plan of blends goes on with a dataset by its name, so a copy
// under a second name begins with its own sample 0, although its bytes are the same.
class NamePairs {
 public:
  // Pairs the names of one blend, and returns the first contradiction to those that were paired before.
  std::optional<std::string> add(const std::vector<Entry>& saved, const std::vector<Entry>& ours,
                                 const Comparison& comparison) {
    std::optional<std::string> first;
    for (size_t i = 0; i < std::min(saved.size(), ours.size()); ++i) {
      const std::string &a = saved[i].prefix, &b = ours[i].prefix;
      if (!comparison.is_same_dataset(a, b)) continue;
      const std::string& now = ours_of_.try_emplace(a, b).first->second;
      const std::string& then = saved_of_.try_emplace(b, a).first->second;
      if (first) continue;
      if (now != b) {
        first = fmt::format(
            "the schedule names {}, and --data-path or an earlier entry names {} with the same "
            "bytes, which was one dataset when the checkpoint was saved: name one of them in both",
            b, now);
      } else if (then != a) {
        first = fmt::format(
            "{} stands for {} and {}, which were two datasets with the same bytes when the "
            "checkpoint was saved: name both of them again",
            b, then, a);
      }
    }
    return first;
  }

 private:
  std::unordered_map<std::string, std::string> ours_of_, saved_of_;
};

// Returns the option that names the datasets of a split.
std::string option_of(Split split, const DataPaths& paths) {
  if (!paths.data_path.empty()) return "--data-path";
  if (!paths.data_args_path.empty()) return "--data-args-path " + paths.data_args_path;
  if (!paths.per_split_data_args_path.empty())
    return "--per-split-data-args-path " + paths.per_split_data_args_path;
  const auto is_given = [](const auto&... options) { return (!options.empty() || ...); };
  const bool are_in_files =
      is_given(paths.train_weighted_split_paths_path, paths.valid_weighted_split_paths_path,
               paths.test_weighted_split_paths_path);
  const bool are_weighted =
      is_given(paths.train_weighted_split_paths, paths.valid_weighted_split_paths,
               paths.test_weighted_split_paths);
  return fmt::format("--{}-{}", short_split_name(split),
                     are_in_files   ? "weighted-split-paths-path"
                     : are_weighted ? "weighted-split-paths"
                                    : "data-path");
}

std::string start_of(const BlendChange& change) {
  return change.from_samples ? fmt::format("sample {}", *change.from_samples)
                             : fmt::format("token {}", change.from_tokens.value_or(0));
}

std::string describe(const BlendChange& change) {
  std::string text = "from " + start_of(change) + " on";
  for (const Entry& entry : entries_of(change.blend)) text += " " + entry.text;
  constexpr size_t kMostBytes = 200;
  if (text.size() <= kMostBytes) return text;
  text.resize(kMostBytes);
  text.resize(num_valid_utf8_bytes(text));  // no character is cut
  return text + " ...";
}

// A difference of two schedules: the first one, as later ones begin later.
struct ScheduleDifference {
  std::string text;
  int64_t first_sample = 0;  // that has, or had, another blend
};

// `pairs` are those of the blends with which the runs begin.
std::optional<ScheduleDifference> first_difference(const std::vector<BlendChange>& saved,
                                                   const std::vector<BlendChange>& ours,
                                                   const Comparison& comparison, NamePairs pairs,
                                                   int64_t sequence_length) {
  for (size_t i = 0; i < std::max(saved.size(), ours.size()); ++i) {
    const std::string entry = fmt::format("entry {} ", i + 1);
    const auto begin = [&](const BlendChange& change) {
      return first_sample_of(change, sequence_length);
    };
    if (i >= saved.size())
      return ScheduleDifference{entry + was_and_is(kNone, describe(ours[i])), begin(ours[i])};
    if (i >= ours.size())
      return ScheduleDifference{entry + was_and_is(describe(saved[i]), kNone), begin(saved[i])};
    const BlendChange &a = saved[i], &b = ours[i];
    if (begin(a) != begin(b)) {
      return ScheduleDifference{entry + was_and_is(describe(a), describe(b)),
                                std::min(begin(a), begin(b))};
    }
    auto inside = comparison.difference(entries_of(a.blend), entries_of(b.blend));
    if (!inside) inside = pairs.add(entries_of(a.blend), entries_of(b.blend), comparison);
    if (inside) {
      return ScheduleDifference{
          fmt::format("of entry {}, from {} on, {}", i + 1, start_of(b), *inside), begin(b)};
    }
  }
  return std::nullopt;
}

void compare_schedules(const DataIdentity& saved, const DataIdentity& ours,
                       const Comparison& comparison, int64_t num_behind, const Config& config,
                       DataDifferences& differences) {
  NamePairs pairs;
  pairs.add(entries_of(saved.blends.of(Split::kTrain)), entries_of(ours.blends.of(Split::kTrain)),
            comparison);
  const auto found = first_difference(saved.blends.changes, ours.blends.changes, comparison, pairs,
                                      config.seq_length);
  if (!found) return;
  const std::string change = "--blend-schedule" +
                             (config.blend_schedule.empty() ? "" : " " + config.blend_schedule) +
                             ": " + found->text;
  if (found->first_sample >= num_behind) {
    differences.allowed.push_back(
        fmt::format("{}; the run has begun {} samples, all in front of this change: it loses and "
                    "repeats none, and samples from {} on follow the new schedule",
                    change, num_behind, found->first_sample));
    return;
  }
  differences.refused.push_back(fmt::format(
      "{}, and the run has begun {} samples: some would come twice and others not at all; give the "
      "schedule with which the checkpoint was saved, in which entries from sample {} on may differ, or "
      "start another run with --finetune",
      change, num_behind, num_behind));
}

// Returns whether arguments of a checkpoint say that its run was given no such file. A version that did not
// have the option had none.
bool had_no_file(const nlohmann::json& arguments, const char* name) {
  if (!arguments.is_object() || arguments.empty()) return false;
  return !arguments.contains(name) || arguments.at(name).is_null();
}

// A file that only one of the two runs has is a change of arguments, which is told as such.
void warn_of_unknown_files(const nlohmann::json& arguments, const Config& config,
                           DataDifferences& differences) {
  for (const auto& [flag, name, file] :
       {std::tuple("--data-args-path", "data_args_path", config.data_args_path),
        std::tuple("--per-split-data-args-path", "per_split_data_args_path",
                   config.per_split_data_args_path),
        std::tuple("--blend-schedule", "blend_schedule", config.blend_schedule)}) {
    if (file.empty() || had_no_file(arguments, name)) continue;
    differences.allowed.push_back(fmt::format(
        "{} {}: the checkpoint is of a version that did not save what this file said, so a "
        "change of it would go unnoticed; see that it is the file with which the run began",
        flag, file));
  }
}

}  // namespace

DataDifferences compare_blends(const DataIdentity& saved, const std::string& saved_arguments,
                               const DataIdentity& ours, int64_t num_behind, const Config& config) {
  DataDifferences differences;
  const Comparison comparison(saved, ours);
  if (!saved.has_blends()) {
    const auto arguments =
        nlohmann::json::parse(saved_arguments, nullptr, /*allow_exceptions=*/false);
    warn_of_unknown_files(arguments, config, differences);
    // Then there was no schedule, and `saved` has none.
    if (had_no_file(arguments, "blend_schedule"))
      compare_schedules(saved, ours, comparison, num_behind, config, differences);
    return differences;
  }
  const bool have_own_paths = saved.blends.has_own_paths || ours.blends.has_own_paths;
  for (const auto& [split, effect] : {std::pair(Split::kTrain, ChangeEffect::kMovesSamples),
                                      std::pair(Split::kValid, ChangeEffect::kMovesEvaluations),
                                      std::pair(Split::kTest, ChangeEffect::kMovesEvaluations)}) {
    if (split != Split::kTrain && !have_own_paths) break;  // all have one blend
    if (const auto difference = comparison.difference(entries_of(saved.blends.of(split)),
                                                      entries_of(ours.blends.of(split)))) {
      differences.allowed.push_back(fmt::format("{}: {} {}: {}",
                                                option_of(split, config.data_paths()),
                                                split_name(split), *difference, words_of(effect)));
    }
  }
  compare_schedules(saved, ours, comparison, num_behind, config, differences);
  return differences;
}

}  // namespace weft
