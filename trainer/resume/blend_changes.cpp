#include "trainer/resume/blend_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/order/blends/blend_schedule.h"
#include "trainer/resume/argument_changes.h"
#include "trainer/resume/blend_comparison.h"

namespace weft {

namespace {

// The hint beside a changed blend of training, which is allowed, but does not say which samples
// come again.
constexpr const char* kExactWay =
    "; to change it from a sample on, without losing or repeating any, keep the old blend and name the new "
    "one in --blend-schedule";

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

// The sequence lengths of the run that saved the checkpoint and of this one: a token of a schedule
// means the first sample that begins at or after it.
struct Lengths {
  int64_t saved = 0, ours = 0;
};

// Without the length in the arguments of a checkpoint no change of it is known.
int64_t seq_length_of(const std::string& arguments, const Config& config) {
  const auto json = nlohmann::json::parse(arguments, nullptr, /*allow_exceptions=*/false);
  const auto length = json.is_object() ? json.find("seq_length") : json.end();
  const bool is_known = length != json.end() && is_json_integer(*length) && *length > 0;
  return is_known ? length->get<int64_t>() : config.seq_length;
}

// "token 591", or "token 591 (sample 60 with --seq-length 10)" where a token alone does not tell
// the sample.
std::string start_of(const BlendChange& change, int64_t length, const Lengths& lengths) {
  if (change.from_samples) return fmt::format("sample {}", *change.from_samples);
  const std::string token = fmt::format("token {}", change.from_tokens.value_or(0));
  if (lengths.saved == lengths.ours) return token;
  return fmt::format("{} (sample {} with --seq-length {})", token, first_sample_of(change, length),
                     length);
}

std::string describe(const BlendChange& change, int64_t length, const Lengths& lengths) {
  std::string text = "from " + start_of(change, length, lengths) + " on";
  for (const std::string& dataset : dataset_texts(change.blend)) text += " " + dataset;
  constexpr size_t kMostBytes = 200;
  if (text.size() <= kMostBytes) return text;
  return std::string(beginning_of(text, kMostBytes)) + " ...";
}

// A difference of two schedules: the first one, as later ones begin later.
struct ScheduleDifference {
  std::string text;
  int64_t first_sample = 0;  // that has, or had, another blend
  // The sample of an entry that moved because --seq-length changed: its token is where it was.
  std::optional<int64_t> moved_from = {};
};

// `pairs` are those of the blends with which the runs begin.
std::optional<ScheduleDifference> first_difference(const std::vector<BlendChange>& saved,
                                                   const std::vector<BlendChange>& ours,
                                                   const BlendComparison& comparison,
                                                   NamePairs pairs, const Lengths& lengths) {
  const auto begin_saved = [&](const BlendChange& c) { return first_sample_of(c, lengths.saved); };
  const auto begin_ours = [&](const BlendChange& c) { return first_sample_of(c, lengths.ours); };
  const auto describe_saved = [&](const BlendChange& c) {
    return describe(c, lengths.saved, lengths);
  };
  const auto describe_ours = [&](const BlendChange& c) {
    return describe(c, lengths.ours, lengths);
  };
  for (size_t i = 0; i < std::max(saved.size(), ours.size()); ++i) {
    const std::string entry = fmt::format("entry {} ", i + 1);
    if (i >= saved.size()) {
      return ScheduleDifference{entry + was_and_is(kNoEntry, describe_ours(ours[i])),
                                begin_ours(ours[i])};
    }
    if (i >= ours.size()) {
      return ScheduleDifference{entry + was_and_is(describe_saved(saved[i]), kNoEntry),
                                begin_saved(saved[i])};
    }
    const BlendChange &a = saved[i], &b = ours[i];
    if (begin_saved(a) != begin_ours(b)) {
      ScheduleDifference moved{entry + was_and_is(describe_saved(a), describe_ours(b)),
                               std::min(begin_saved(a), begin_ours(b))};
      if (a.from_tokens && a.from_tokens == b.from_tokens) moved.moved_from = begin_saved(a);
      return moved;
    }
    auto inside = comparison.find_difference({&a.blend, 1}, {&b.blend, 1});
    if (!inside) inside = pairs.add({&a.blend, 1}, {&b.blend, 1}, comparison);
    if (inside) {
      return ScheduleDifference{fmt::format("of entry {}, from {} on, {}", i + 1,
                                            start_of(b, lengths.ours, lengths), *inside),
                                begin_ours(b)};
    }
  }
  return std::nullopt;
}

void compare_schedules(const DataIdentity& saved, const DataIdentity& ours,
                       const BlendComparison& comparison, int64_t num_begun, const Config& config,
                       const Lengths& lengths, DataDifferences& differences) {
  NamePairs pairs;
  pairs.add(saved.blends.of(Split::kTrain), ours.blends.of(Split::kTrain), comparison);
  const auto found =
      first_difference(saved.blends.changes, ours.blends.changes, comparison, pairs, lengths);
  if (!found) return;
  const std::string change =
      "--blend-schedule" +
      (config.paths.blend_schedule.empty() ? "" : " " + config.paths.blend_schedule) + ": " +
      found->text;
  if (found->first_sample >= num_begun) {
    differences.allowed.push_back(
        fmt::format("{}; the run has begun {} samples, all before this change: it loses and "
                    "repeats none, and samples from {} on follow the new schedule",
                    change, num_begun, found->first_sample));
    return;
  }
  const std::string remedy =
      found->moved_from
          ? fmt::format("give \"from_samples\": {} in place of its token", *found->moved_from)
          : fmt::format(
                "give the schedule with which the checkpoint was saved, in which entries from "
                "sample {} on may differ",
                num_begun);
  differences.refused.push_back(fmt::format(
      "{}, and the run has begun {} samples: some would come twice and others not at all; {}, or start "
      "another run with --finetune",
      change, num_begun, remedy));
}

}  // namespace

DataDifferences compare_blends(const DataIdentity& saved, const std::string& saved_arguments,
                               const DataIdentity& ours, int64_t num_begun, const Config& config) {
  DataDifferences differences;
  const BlendComparison comparison(saved, ours, config.sample_order);
  const Lengths lengths{seq_length_of(saved_arguments, config), config.seq_length};
  const bool have_own_paths = saved.blends.has_own_paths || ours.blends.has_own_paths;
  for (const auto& [split, effect] : {std::pair(Split::kTrain, ChangeEffect::kMovesSamples),
                                      std::pair(Split::kValid, ChangeEffect::kMovesEvaluations),
                                      std::pair(Split::kTest, ChangeEffect::kMovesEvaluations)}) {
    if (split != Split::kTrain && !have_own_paths) break;  // all have one blend
    if (const auto difference =
            comparison.find_difference(saved.blends.of(split), ours.blends.of(split))) {
      differences.allowed.push_back(fmt::format("{}: {} {}: {}{}", option_of(split, config.paths),
                                                split_name(split), *difference, words_of(effect),
                                                split == Split::kTrain ? kExactWay : ""));
    }
  }
  compare_schedules(saved, ours, comparison, num_begun, config, lengths, differences);
  return differences;
}

}  // namespace weft
