#include "indexed_dataset/order/blends/blend_schedule.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/order/blends/blend_sizes.h"

namespace weft {
namespace {

using SortedJson = nlohmann::json;

[[noreturn]] void throw_bad_schedule(const std::string& option, const std::string& what) {
  throw UsageError(
      option + ": " + what +
      "; give [{\"from_samples\": N, \"blend\": \"WEIGHT PREFIX WEIGHT PREFIX ...\"}, ...], or "
      "\"from_tokens\"");
}

// "WEIGHT PREFIX ...", or a list of numbers and texts.
std::vector<std::string> values_of(const SortedJson& blend) {
  if (blend.is_string()) return words_of(blend.get<std::string>());
  std::vector<std::string> values;
  for (const SortedJson& value : blend)
    values.push_back(value.is_number() ? value.dump() : value.get<std::string>());
  return values;
}

std::optional<int64_t> find_start(const SortedJson& change, const char* name,
                                  const std::string& option) {
  const auto found = change.find(name);
  if (found == change.end()) return std::nullopt;
  if (!found->is_number_integer() || found->get<int64_t>() < 1)
    throw_bad_schedule(
        option, std::string(name) + " is " + found->dump() + ", it must be an integer above 0");
  return found->get<int64_t>();
}

void check_distinct(const Blend& blend, const std::string& option) {
  std::set<std::string> seen;
  for (const std::string& prefix : blend.prefixes) {
    if (seen.insert(files_of_dataset(prefix)).second) continue;
    throw_bad_schedule(option,
                       prefix + " stands twice in one blend, so that its next sample is not known");
  }
}

BlendChange parse_change(const SortedJson& json, const std::string& option) {
  if (!json.is_object() || !json.contains("blend"))
    throw_bad_schedule(option, "an entry without \"blend\"");
  for (const auto& [name, value] : json.items()) {
    if (name != "blend" && name != "from_samples" && name != "from_tokens")
      throw_bad_schedule(option, "an entry has \"" + name + "\", which means nothing");
  }
  BlendChange change{.from_samples = find_start(json, "from_samples", option),
                     .from_tokens = find_start(json, "from_tokens", option),
                     .blend = {}};
  if (change.from_samples.has_value() == change.from_tokens.has_value())
    throw_bad_schedule(option, "an entry needs either \"from_samples\" or \"from_tokens\"");
  change.blend = parse_blend(values_of(json["blend"]), option);
  if (change.blend.weights.empty() && change.blend.prefixes.size() == 1)
    change.blend.weights = {1.0};
  if (change.blend.weights.empty()) throw_bad_schedule(option, "a blend without weights");
  check_distinct(change.blend, option);
  return change;
}

// One blend and the samples [first, end) that it gives.
struct Phase {
  const Blend& blend;
  int64_t first = 0, end = 0;
};

std::vector<Phase> phases_of(const Blend& first, const std::vector<BlendChange>& changes,
                             int64_t num_samples, int64_t sequence_length) {
  std::vector<Phase> phases = {{first, 0, num_samples}};
  for (const BlendChange& change : changes) {
    const int64_t begin = first_sample_of(change, sequence_length);
    if (begin <= phases.back().first) {
      throw UsageError("--blend-schedule: a blend begins with sample " + std::to_string(begin) +
                       ", not after the one before it, which "
                       "begins with sample " +
                       std::to_string(phases.back().first));
    }
    if (begin >= num_samples) break;
    phases.back().end = begin;
    phases.push_back({change.blend, begin, num_samples});
  }
  return phases;
}

// Returns the share of a dataset that neither validation nor test reads: training may read it.
// `held_out` are the shares of those two.
std::pair<double, double> share_that_is_left(const std::string& prefix,
                                             std::vector<std::pair<double, double>> held_out) {
  std::sort(held_out.begin(), held_out.end());
  held_out.emplace_back(1.0, 1.0);
  std::vector<std::pair<double, double>> left;
  double end = 0;
  for (const auto& share : held_out) {
    if (share.first > end) left.emplace_back(end, share.first);
    end = std::max(end, share.second);
  }
  if (left.size() == 1) return left.front();
  throw UsageError("--blend-schedule: of " + prefix +
                   ", which the run's own training blend does not name, validation and "
                   "test leave " +
                   (left.empty() ? "nothing" : "several parts") +
                   "; name it there with its share, or take it out of the schedule");
}

}  // namespace

std::string files_of_dataset(const std::string& prefix) {
  std::string files;
  for (const char* suffix : {".bin", ".idx"}) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::absolute(prefix + suffix);
    const std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
    files += (error ? path : canonical).string() + "\n";
  }
  return files;
}

std::vector<BlendChange> read_blend_schedule(const std::string& path, const Blend& first) {
  const std::string option = "--blend-schedule " + path;
  if (first.weights.empty() && first.prefixes.size() > 1)
    throw_bad_schedule(option, "the run's own blend has no weights, so it has no shares to change");
  check_distinct(first, option);
  std::vector<BlendChange> changes;
  try {
    const SortedJson json = parse_json<SortedJson>(read_regular_file(path));
    if (!json.is_array()) throw_bad_schedule(option, "not a JSON list");
    for (const SortedJson& change : json) changes.push_back(parse_change(change, option));
  } catch (const SortedJson::exception& error) {
    throw_bad_schedule(option, error.what());
  }
  return changes;
}

void fit_to_blends(std::vector<BlendChange>& changes, std::span<const std::vector<Blend>> splits,
                   bool has_own_paths) {
  std::unordered_map<std::string, std::string> spellings;
  std::unordered_map<std::string, std::pair<double, double>> training_shares;
  std::unordered_map<std::string, std::vector<std::pair<double, double>>> held_out;
  const auto spell = [&spellings](const std::string& prefix) {
    return spellings.emplace(files_of_dataset(prefix), prefix).first->second;
  };
  for (const std::vector<Blend>& groups : splits) {
    const bool is_training = &groups == splits.data();
    for (const Blend& blend : groups) {
      for (size_t i = 0; i < blend.prefixes.size(); ++i) {
        const std::string prefix = spell(blend.prefixes[i]);
        if (blend.shares.empty()) continue;
        if (is_training) {
          training_shares.emplace(prefix, blend.shares[i]);
        } else {
          held_out[prefix].push_back(blend.shares[i]);
        }
      }
    }
  }
  for (BlendChange& change : changes) {
    for (std::string& prefix : change.blend.prefixes) {
      prefix = spell(prefix);
      if (!has_own_paths) continue;
      const auto known = training_shares.find(prefix);
      change.blend.shares.push_back(known != training_shares.end()
                                        ? known->second
                                        : share_that_is_left(prefix, held_out[prefix]));
    }
  }
}

int64_t first_sample_of(const BlendChange& change, int64_t sequence_length) {
  if (change.from_samples) return *change.from_samples;
  return (*change.from_tokens - 1) / sequence_length + 1;
}

BlendPlan plan_blends(const Blend& first, const std::vector<BlendChange>& changes,
                      int64_t num_samples, int64_t sequence_length, OrderKind order,
                      double surplus) {
  BlendPlan plan;
  plan.datasets.name = first.name;
  std::map<std::string, int32_t> known;
  std::vector<int32_t> dataset_index;
  dataset_index.reserve(static_cast<size_t>(num_samples));
  plan.index.sample_index.reserve(static_cast<size_t>(num_samples));
  for (const Phase& phase : phases_of(first, changes, num_samples, sequence_length)) {
    const bool is_alone = phase.blend.weights.empty();
    const BlendSizes rest = blend_sizes(is_alone ? std::vector{1.0} : phase.blend.weights,
                                        num_samples - phase.first, order, surplus);
    std::vector<int32_t> datasets;
    for (size_t i = 0; i < phase.blend.prefixes.size(); ++i) {
      const auto [at, is_new] =
          known.emplace(phase.blend.prefixes[i], static_cast<int32_t>(known.size()));
      datasets.push_back(at->second);
      if (!is_new) continue;
      plan.datasets.prefixes.push_back(at->first);
      plan.datasets.spellings.push_back(phase.blend.spelling(i));
      if (!first.shares.empty()) plan.datasets.shares.push_back(phase.blend.shares.at(i));
      // A dataset that is not blended is asked for no surplus.
      plan.num_asked.push_back(is_alone ? num_samples : rest.num_to_build[i]);
    }
    plan.index.counts.resize(known.size(), 0);
    const BlendingIndex greedy = build_blending_index(rest.weights, phase.end - phase.first);
    const BlendingIndexView view = greedy.view();
    for (int64_t k = 0; k < view.size(); ++k) {
      const int32_t dataset = datasets[static_cast<size_t>(view.dataset_of(k))];
      dataset_index.push_back(dataset);
      plan.index.sample_index.push_back(plan.index.counts[static_cast<size_t>(dataset)]++);
    }
  }
  plan.index.dataset_index = std::move(dataset_index);
  return plan;
}

std::vector<Lap> split_into_laps(BlendingIndex& index, const std::vector<int64_t>& num_samples) {
  std::vector<Lap> laps;
  for (size_t i = 0; i < num_samples.size(); ++i) laps.push_back({static_cast<int64_t>(i), 0});
  // later[d]: where the laps of dataset d after its first one begin in the list.
  std::vector<int64_t> later;
  for (size_t i = 0; i < num_samples.size(); ++i) {
    later.push_back(std::ssize(laps));
    for (int64_t lap = 1; lap * num_samples[i] < index.counts[i]; ++lap)
      laps.push_back({static_cast<int64_t>(i), lap});
  }
  auto& dataset_index = std::get<std::vector<int32_t>>(index.dataset_index);
  for (size_t k = 0; k < dataset_index.size(); ++k) {
    const auto dataset = static_cast<size_t>(dataset_index[k]);
    const int64_t lap = index.sample_index[k] / num_samples[dataset];
    if (lap == 0) continue;
    dataset_index[k] = static_cast<int32_t>(later[dataset] + lap - 1);
    index.sample_index[k] -= lap * num_samples[dataset];
  }
  return laps;
}

}  // namespace weft
