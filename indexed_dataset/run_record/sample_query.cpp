#include "indexed_dataset/run_record/sample_query.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

// Returns the iterations that Megatron counts before it builds its datasets: those of the ramp-up,
// and then whole batches [Megatron-LM megatron/training/training.py, update_train_iters]. Newer
// versions leave the ramp where training ends; older ones count it to its end and subtract what is
// too much in batches of full size.
int64_t iterations_counted_by_megatron(const SampleOrder& order, bool stops_in_ramp) {
  const int64_t num_samples = *order.train_samples, full = *order.global_batch_size,
                end_of_ramp = order.rampup_batch_size.at(2);
  const BatchSizePlan plan = batch_sizes_of(order);
  int64_t iterations = 0, consumed = 0;
  while (consumed <= end_of_ramp && (!stops_in_ramp || consumed <= num_samples)) {
    consumed += plan.batch_size(consumed);
    ++iterations;
  }
  if (consumed <= num_samples) return iterations + (num_samples - consumed) / full;
  return stops_in_ramp ? iterations : iterations - (consumed - num_samples + full - 1) / full;
}

// Returns the validation samples of a run of Megatron with a ramp-up. Throws std::runtime_error
// where its versions ask for different numbers.
int64_t validation_samples_of_megatron(const SampleOrder& order) {
  const auto samples = [&](bool stops_in_ramp) {
    return dataset_target_sizes(std::nullopt, iterations_counted_by_megatron(order, stops_in_ramp),
                                *order.global_batch_size, order.eval_interval, order.eval_iters)
        .valid_samples;
  };
  const int64_t older = samples(false);
  if (rules_of(order.sample_order).precedes_core) return older;
  const int64_t newer = samples(true);
  if (older == newer) return newer;
  const auto text = [](int64_t number) { return std::to_string(number); };
  throw std::runtime_error(
      "with rampup_batch_size " + text(order.rampup_batch_size[0]) + " " +
      text(order.rampup_batch_size[1]) + " " + text(order.rampup_batch_size[2]) +
      " and train_samples " + text(*order.train_samples) +
      " training ends before the ramp does, and versions of Megatron then ask for different numbers of "
      "validation samples, " +
      text(newer) + " or " + text(older) +
      ", so that the validation set is not known; the samples of training are");
}

DatasetTargetSizes target_sizes(const SampleOrder& order, Split split) {
  if (order.asked_samples) return *order.asked_samples;
  // The train split does not depend on the batch size unless iterations are counted.
  DatasetTargetSizes sizes = target_sizes_of(order, split == Split::kTrain ? 0 : order.eval_iters);
  const bool has_ramp = order.rampup_batch_size.size() == 3 && batch_sizes_of(order).changes();
  if (order.takes_megatron_caches && split == Split::kValid && has_ramp &&
      order.step_batch_size_schedule.empty() && order.train_samples && order.eval_iters > 0)
    sizes.valid_samples = validation_samples_of_megatron(order);
  return sizes;
}

// Says that Megatron's index caches with a lock are not shown, and names one lock in the folder; ""
// without any. A writer that was killed leaves its lock.
std::string note_on_locks(const std::filesystem::path& folder) {
  std::string first;
  std::error_code no_folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, no_folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with("weft.json.lock") && (first.empty() || name < first)) first = name;
  }
  if (first.empty()) return "";
  return "index caches of Megatron with a lock, as " + (folder / first).string() +
         ", are not shown: if no run writes there, remove *.lock from the folder";
}

// Says whether index caches are shown, or what the arguments say. A run of Megatron has left the
// caches of all its indexes: throws std::runtime_error where only some are there, as the arguments
// or the order are then not those of the run. Caches of Weft's own are what the arguments say.
std::vector<std::string> notes_on_caches(const std::vector<IndexReport>& reports,
                                         const std::filesystem::path& folder) {
  const IndexReport* missing = nullptr;
  bool has_megatrons = false, has_cached = false;
  for (const IndexReport& report : reports) {
    if (!report.is_kept) continue;
    has_cached = has_cached || report.was_cached;
    has_megatrons = has_megatrons || report.is_from_megatron;
    if (!report.was_cached && !missing) missing = &report;
  }
  if (!missing) return {"the indexes are mapped from caches"};
  const std::string locks = note_on_locks(folder);
  if (has_megatrons) {
    throw std::runtime_error(
        "there are index caches of Megatron, but none of " + missing->name + " for " +
        (missing->num_asked < 0 ? "one epoch" : std::to_string(missing->num_asked) + " samples") +
        ": these arguments and this --sample-order are not those of a run that left the caches "
        "(blends of Megatron-Core have other sizes from 0.11 on, core, than before it, "
        "core-0.10). If the run left none, move the caches of other runs away, and the indexes are "
        "built from the arguments" +
        (locks.empty() ? "" : "; " + locks));
  }
  std::vector<std::string> notes;
  if (has_cached) {
    notes.push_back(
        "some indexes are mapped from caches that weft-data has built, and the others are built "
        "from the arguments");
  } else {
    notes.push_back(
        "no index cache was found: the indexes are built from the arguments (caches are looked for "
        "in --data-cache-path, by the names that follow from the arguments; names of Megatron-Core "
        "tell its tokenizer, too, which --dataset-description says)");
  }
  if (!locks.empty()) notes.push_back(locks);
  return notes;
}

int64_t& samples_of(DatasetTargetSizes& sizes, Split split) {
  return split == Split::kTrain   ? sizes.train_samples
         : split == Split::kValid ? sizes.valid_samples
                                  : sizes.test_samples;
}

}  // namespace

BatchSizePlan batch_sizes_of(const SampleOrder& order) {
  if (!order.global_batch_size) throw std::runtime_error("the run tells no global_batch_size");
  return BatchSizePlan::of_options(order.step_batch_size_schedule, *order.global_batch_size,
                                   order.rampup_batch_size, order.seq_length);
}

DatasetTargetSizes target_sizes_of(const SampleOrder& order, int64_t eval_iters) {
  DatasetTargetSizes sizes =
      dataset_target_sizes(order.train_samples, order.train_iters.value_or(0),
                           order.global_batch_size.value_or(1), order.eval_interval, eval_iters);
  if (!order.train_samples || eval_iters == 0) return sizes;
  // Smaller batches make more iterations, and so more evaluations.
  sizes.train_iters = batch_sizes_of(order).iterations_within(*order.train_samples);
  sizes.valid_samples =
      dataset_target_sizes(std::nullopt, sizes.train_iters, *order.global_batch_size,
                           order.eval_interval, eval_iters)
          .valid_samples;
  return sizes;
}

int64_t num_asked_samples(const SampleOrder& order, Split split) {
  DatasetTargetSizes sizes = target_sizes(order, split);
  return samples_of(sizes, split);
}

const Blend& find_group(const SplitBlends& blends, Split split, const std::string& name) {
  const std::vector<Blend>& groups = blends.of(split);
  if (groups.size() == 1 && name.empty()) return groups.front();
  std::string names;
  for (const Blend& group : groups) {
    if (group.name == name && !name.empty()) return group;
    names += (names.empty() ? "" : ", ") + (group.name.empty() ? "one without a name" : group.name);
  }
  const std::string split_text(split_name(split));
  if (groups.empty()) throw UsageError("the run names no dataset for " + split_text);
  if (name.empty())
    throw UsageError(split_text + " has several groups; give one with --group: " + names);
  throw UsageError("--group " + name + ": " + split_text + " has no group of this name: " + names);
}

namespace {

std::string text_of(const Blend& blend) {
  std::string text;
  for (size_t i = 0; i < blend.prefixes.size(); ++i) {
    if (i > 0) text += " ";
    if (!blend.weights.empty()) text += fmt::format("{} ", blend.weights[i]);
    if (!blend.shares.empty())
      text += fmt::format("{}:{} ", blend.shares[i].first, blend.shares[i].second);
    text += blend.prefixes[i];
  }
  return text;
}

std::string text_of(const std::vector<Blend>& groups) {
  std::string text;
  for (const Blend& group : groups)
    text +=
        (text.empty() ? "" : "; ") + (group.name.empty() ? "" : group.name + ": ") + text_of(group);
  return text;
}

std::string text_of(const std::vector<BlendChange>& changes) {
  std::string text;
  for (const BlendChange& change : changes) {
    text += fmt::format("{}from {} {}: {}", text.empty() ? "" : "; ",
                        change.from_samples ? "sample" : "token",
                        change.from_samples ? *change.from_samples : change.from_tokens.value_or(0),
                        text_of(change.blend));
  }
  return text;
}

std::string text_of(const std::optional<CyclicOptions>& cyclic) {
  if (!cyclic) return "single";
  return fmt::format("cyclic of micro-batches of {} on {} ranks{}", cyclic->micro_batch_size,
                     cyclic->data_parallel_size, cyclic->shards ? "" : ", without sharding");
}

// Megatron counts iterations in batches, of which the draws of an iteration follow.
std::string text_of(const std::optional<MetricCurriculum>& draws) {
  if (!draws) return "";
  return fmt::format("{}, seed {}, batches of {} {} {}", draws->metrics, draws->seed,
                     draws->global_batch_size, fmt::join(draws->rampup_batch_size, " "),
                     draws->step_batch_size_schedule);
}

// Returns the fields that are compared by themselves and for which `decides` is true.
template <typename Decides>
std::vector<OrderDifference> different_fields(const SampleOrder& a, const SampleOrder& b,
                                              const Decides& decides) {
  std::vector<OrderDifference> differences;
  const auto compare = [&](const auto& field, const auto& x, const auto& y) {
    if (field.compared_by == ComparedBy::kItself && decides(field.moves) && x != y)
      differences.push_back({"--" + std::string(field.flag), field_text(x), field_text(y)});
  };
  visit_sample_fields(compare, a, b);
  return differences;
}

}  // namespace

std::vector<OrderDifference> differences_in_samples(const SampleOrder& a, const SampleOrder& b,
                                                    Split split) {
  const bool is_training = split == Split::kTrain;
  std::vector<OrderDifference> differences;
  const auto compare = [&](const std::string& name, const auto& x, const auto& y) {
    if (x != y) differences.push_back({name, text_of(x), text_of(y)});
  };
  compare("the datasets of " + std::string(split_name(split)), a.blends.of(split),
          b.blends.of(split));
  if (is_training) compare("--blend-schedule", a.blends.changes, b.blends.changes);
  const auto split_of = [](const SampleOrder& order) {
    return order.blends.has_own_paths ? "paths of each split" : order.split;
  };
  if (a.blends.has_own_paths != b.blends.has_own_paths ||
      (!a.blends.has_own_paths && !is_same_split(a.split, b.split)))
    differences.push_back({"--split", split_of(a), split_of(b)});
  for (OrderDifference& difference : different_fields(a, b, [&](Moves moves) {
         return moves == Moves::kSamples || (moves == Moves::kEvaluations && !is_training);
       }))
    differences.push_back(std::move(difference));
  compare("--dataloader-type", a.cyclic, b.cyclic);
  if (is_training) compare("--curriculum-metrics", a.draws, b.draws);
  const int64_t asked_of_a = num_asked_samples(a, split), asked_of_b = num_asked_samples(b, split);
  if (asked_of_a != asked_of_b) {
    differences.push_back({"samples of " + std::string(split_name(split)) + " that are asked for",
                           std::to_string(asked_of_a), std::to_string(asked_of_b)});
  }
  return differences;
}

std::vector<OrderDifference> differences_in_iterations(const SampleOrder& a, const SampleOrder& b) {
  return different_fields(a, b, [](Moves moves) { return moves == Moves::kIterations; });
}

GroupSamples build_group(const SampleOrder& order, Split split, const std::string& group) {
  SampleOrder own = order;
  DatasetTargetSizes sizes = target_sizes(order, split);
  sizes.eval_iters = order.eval_iters;
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other == split) continue;
    samples_of(sizes, other) = 0;
    own.blends.blends[static_cast<size_t>(other)].clear();
  }
  if (split != Split::kTrain) own.blends.changes.clear();
  own.blends.blends[static_cast<size_t>(split)] = {find_group(order.blends, split, group)};
  TrainingDatasets datasets = build_training_datasets(own, sizes);
  GroupSamples built;
  if (order.takes_megatron_caches)
    built.notes = notes_on_caches(datasets.reports, order.cache_path);
  if (datasets.train) built.samples = std::move(*datasets.train);
  for (auto* groups : {&datasets.valid, &datasets.test}) {
    if (!built.samples && !groups->empty()) built.samples = std::move(groups->front().dataset);
  }
  return built;
}

}  // namespace weft
