#include "indexed_dataset/blends/sample_query.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <type_traits>

#include "indexed_dataset/blends/blend_json.h"
#include "indexed_dataset/terminal/messages.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Returns nothing if the value is absent or null.
template <typename T>
std::optional<T> find_value(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// Megatron writes a list; one dataset may stand alone as a text.
std::vector<std::string> find_list(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return {};
  if (found->is_string()) return {found->get<std::string>()};
  return found->get<std::vector<std::string>>();
}

std::string find_text(const Json& arguments, const char* name) {
  return find_value<std::string>(arguments, name).value_or("");
}

DataPaths data_paths_from(const Json& arguments) {
  return {.data_path = find_list(arguments, "data_path"),
          .train_data_path = find_list(arguments, "train_data_path"),
          .valid_data_path = find_list(arguments, "valid_data_path"),
          .test_data_path = find_list(arguments, "test_data_path"),
          .data_args_path = find_text(arguments, "data_args_path"),
          .per_split_data_args_path = find_text(arguments, "per_split_data_args_path"),
          .train_weighted_split_paths = find_list(arguments, "train_weighted_split_paths"),
          .valid_weighted_split_paths = find_list(arguments, "valid_weighted_split_paths"),
          .test_weighted_split_paths = find_list(arguments, "test_weighted_split_paths"),
          .blend_schedule = find_text(arguments, "blend_schedule")};
}

// Manifests of older versions and files of arguments alone have no "blends".
SplitBlends blends_from(const Json& manifest) {
  if (const auto found = manifest.find("blends"); found != manifest.end())
    return split_blends_from_json(*found);
  DataPaths paths = data_paths_from(manifest.at("arguments"));
  for (const std::string& file :
       {paths.data_args_path, paths.per_split_data_args_path, paths.blend_schedule}) {
    if (file.empty() || !manifest.contains("program")) continue;
    throw std::runtime_error(
        "an older version wrote it, and it does not tell what " + file +
        " said when the run began; give the arguments by hand (--data-path ...)");
  }
  if (const auto prefix = find_value<std::string>(manifest, "dataset_prefix");
      prefix && paths.data_path.size() == 1) {
    paths.data_path = {*prefix};
  }
  return resolve_data_paths(paths);
}

OrderKind order_kind_from(const Json& arguments) {
  const auto name = find_value<std::string>(arguments, "sample_order");
  if (!name) return OrderKind::kCore;
  for (const auto& [known, kind] : kOrderKinds) {
    if (*name == known) return kind;
  }
  throw std::runtime_error("the run's --sample-order is " + *name +
                           ", which this version does not know");
}

// A cache is a help only: a folder that was removed since is not created anew.
std::string folder_if_there(const std::string& folder) {
  std::error_code error;
  return !folder.empty() && std::filesystem::is_directory(folder, error) ? folder : "";
}

DatasetOptions dataset_options_from(const Json& manifest) {
  const Json& arguments = manifest.at("arguments");
  const std::filesystem::path directory = find_text(manifest, "working_directory");
  DatasetOptions data;
  data.blends = blends_from(manifest);
  resolve_prefixes(data.blends, directory);
  arguments.at("split").get_to(data.split);
  data.order = order_kind_from(arguments);
  arguments.at("seq_length").get_to(data.sequence_length);
  arguments.at("seed").get_to(data.seed);
  data.surplus =
      find_value<double>(arguments, "mid_level_dataset_surplus").value_or(kDefaultSurplus);
  if (const std::string cache = find_text(arguments, "data_cache_path"); !cache.empty())
    data.cache_path = folder_if_there((directory / cache).string());
  data.maps_caches_only = true;
  if (find_text(arguments, "dataloader_type") == "cyclic") {
    // The order keeps the sizes that it began with; older manifests have only the run's own.
    const auto kept = manifest.find("cyclic_order");
    const bool has_own = kept != manifest.end() && kept->is_object();
    data.cyclic = {
        .micro_batch_size = (has_own ? *kept : arguments).at("micro_batch_size").get<int64_t>(),
        .data_parallel_size = (has_own ? *kept : manifest).at("data_parallel_size").get<int64_t>(),
        .shards = !find_value<bool>(arguments, "no_data_sharding").value_or(false)};
  }
  if (const std::string metrics = find_text(arguments, "curriculum_metrics"); !metrics.empty()) {
    data.curriculum = MetricCurriculum{
        .metrics = metrics,
        .seed = find_value<int64_t>(arguments, "curriculum_metrics_seed").value_or(1234),
        .global_batch_size = arguments.at("global_batch_size").get<int64_t>(),
        .rampup_batch_size = find_value<std::vector<int64_t>>(arguments, "rampup_batch_size")
                                 .value_or(std::vector<int64_t>()),
        .step_batch_size_schedule = find_text(arguments, "step_batch_size_schedule"),
        .directory = directory.string()};
  }
  data.full_validation = find_value<bool>(arguments, "full_validation").value_or(false);
  data.vocab_file = find_text(arguments, "vocab_file");
  data.merge_file = find_text(arguments, "merge_file");
  return data;
}

CurriculumOptions curriculum_from(const Json& arguments) {
  CurriculumOptions options;
  options.schedule_type = find_text(arguments, "curriculum_schedule_type");
  if (options.schedule_type.empty()) return options;
  const auto read = [&](const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    value = find_value<Value>(arguments, name).value_or(value);
  };
  read("curriculum_mode", options.mode);
  read("curriculum_min_difficulty", options.min_difficulty);
  read("curriculum_max_difficulty", options.max_difficulty);
  read("curriculum_total_step", options.total_step);
  read("curriculum_difficulty_step", options.difficulty_step);
  read("curriculum_root_degree", options.root_degree);
  read("curriculum_difficulty", options.difficulty);
  read("curriculum_max_step", options.max_step);
  return options;
}

// One divides by these.
void check_positive(const std::optional<int64_t>& value, const char* name) {
  if (value && *value < 1)
    throw std::runtime_error(std::string(name) + " is " + std::to_string(*value));
}

// Returns the iterations that Megatron counts before it builds its datasets: those of the ramp-up, and then
// whole batches [Megatron-LM megatron/training/training.py, update_train_iters]. Newer versions leave the ramp
// where training ends; older ones count it to its end and subtract what is too much in batches of full size.
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

// Returns the validation samples of a run of Megatron with a ramp-up. Throws std::runtime_error where its
// versions ask for different numbers.
int64_t validation_samples_of_megatron(const SampleOrder& order) {
  const auto samples = [&](bool stops_in_ramp) {
    return dataset_target_sizes(std::nullopt, iterations_counted_by_megatron(order, stops_in_ramp),
                                *order.global_batch_size, order.eval_interval, order.eval_iters)
        .valid_samples;
  };
  const int64_t older = samples(false);
  if (rules_of(order.data.order).precedes_core) return older;
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
  if (order.data.takes_megatron_caches && split == Split::kValid && has_ramp &&
      order.step_batch_size_schedule.empty() && order.train_samples && order.eval_iters > 0)
    sizes.valid_samples = validation_samples_of_megatron(order);
  return sizes;
}

// A run of Megatron has left the caches of all its indexes. Where some are there, and another is only for
// another number of samples or not at all, the arguments or the order are not those of the run.
[[noreturn]] void throw_missing_cache(const IndexReport& missing) {
  std::string others;
  for (const std::string& size : missing.other_caches)
    others += (others.empty() ? "" : ", ") + (size == "None" ? "one epoch" : size);
  throw std::runtime_error(
      "there are index caches of Megatron, but none of " + missing.name + " for " +
      (missing.num_asked < 0 ? "one epoch" : std::to_string(missing.num_asked) + " samples") +
      (others.empty() ? "" : ", only for " + others) +
      ": these arguments and this --sample-order are not those of a run that left the caches (blends of "
      "Megatron-Core have other sizes from 0.11 on, core, than before it, core-0.10). If the run left "
      "none, move the caches of other runs away, and the indexes are built from the arguments");
}

// Says whether index caches are shown, or what the arguments say. Throws std::runtime_error where both would
// be mixed.
void tell_what_is_cached(const std::vector<IndexReport>& reports) {
  const IndexReport* missing = nullptr;
  bool are_some_there = false;
  for (const IndexReport& report : reports) {
    if (!report.is_kept) continue;
    are_some_there = are_some_there || report.was_cached || !report.other_caches.empty();
    const bool tells_more =
        missing && missing->other_caches.empty() && !report.other_caches.empty();
    if (!report.was_cached && (!missing || tells_more)) missing = &report;
  }
  if (!missing) {
    print_message("the indexes are mapped from caches");
  } else if (are_some_there) {
    throw_missing_cache(*missing);
  } else {
    print_message("no index cache was found: the indexes are built from the arguments");
  }
}

int64_t& samples_of(DatasetTargetSizes& sizes, Split split) {
  return split == Split::kTrain   ? sizes.train_samples
         : split == Split::kValid ? sizes.valid_samples
                                  : sizes.test_samples;
}

}  // namespace

SampleOrder sample_order_from(const Json& manifest) {
  const Json& arguments = manifest.at("arguments");
  SampleOrder order;
  order.data = dataset_options_from(manifest);
  if (const auto samples = manifest.find("dataset_samples"); samples != manifest.end()) {
    order.asked_samples =
        DatasetTargetSizes{.train_samples = samples->at("train").get<int64_t>(),
                           .valid_samples = samples->at("validation").get<int64_t>(),
                           .test_samples = samples->at("test").get<int64_t>()};
  }
  order.train_samples = find_value<int64_t>(arguments, "train_samples");
  // Megatron derives train_iters from train_samples and keeps both: the samples were what was asked
  // for.
  if (!order.train_samples) order.train_iters = find_value<int64_t>(arguments, "train_iters");
  order.eval_iters = arguments.at("eval_iters").get<int64_t>();
  order.eval_interval = arguments.at("eval_interval").get<int64_t>();
  order.global_batch_size = find_value<int64_t>(arguments, "global_batch_size");
  if (!order.global_batch_size)
    order.global_batch_size = find_value<int64_t>(arguments, "micro_batch_size");
  order.rampup_batch_size = find_value<std::vector<int64_t>>(arguments, "rampup_batch_size")
                                .value_or(order.rampup_batch_size);
  order.step_batch_size_schedule = find_text(arguments, "step_batch_size_schedule");
  order.micro_batch_size = find_value<int64_t>(arguments, "micro_batch_size");
  order.data_parallel_size = find_value<int64_t>(manifest, "data_parallel_size");
  check_positive(order.global_batch_size, "global_batch_size");
  check_positive(order.micro_batch_size, "micro_batch_size");
  check_positive(order.data_parallel_size, "data_parallel_size");
  if (order.eval_iters != 0) check_positive(order.eval_interval, "eval_interval");
  check_positive(order.data.sequence_length, "seq_length");
  if (order.data.cyclic) {
    check_positive(order.data.cyclic->micro_batch_size, "the cyclic order's micro_batch_size");
    check_positive(order.data.cyclic->data_parallel_size, "the cyclic order's data_parallel_size");
  }
  if (!order.step_batch_size_schedule.empty())
    order.global_batch_size =
        BatchSizePlan::of_steps(order.step_batch_size_schedule, order.data.sequence_length).last();
  order.curriculum = curriculum_from(arguments);
  return order;
}

BatchSizePlan batch_sizes_of(const SampleOrder& order) {
  if (!order.global_batch_size) throw std::runtime_error("the run tells no global_batch_size");
  return BatchSizePlan::of_options(order.step_batch_size_schedule, *order.global_batch_size,
                                   order.rampup_batch_size, order.data.sequence_length);
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

std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration,
                                                 const Resumption& resumed) {
  const BatchSizePlan plan = batch_sizes_of(order);
  const auto first = plan.consumed_after(iteration - 1 - resumed.iteration, resumed.samples);
  const auto last = first ? plan.consumed_after(1, *first) : std::nullopt;
  if (!last) {
    throw std::invalid_argument("--iteration " + std::to_string(iteration) +
                                ": its samples do not fit 64 bits");
  }
  return {*first, *last};
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
  if (groups.empty()) throw std::invalid_argument("the run names no dataset for " + split_text);
  if (name.empty())
    throw std::invalid_argument(split_text +
                                " has several groups; give one with --group: " + names);
  throw std::invalid_argument("--group " + name + ": " + split_text +
                              " has no group of this name: " + names);
}

std::optional<BlendedDataset> find_samples_of_group(const SampleOrder& order, Split split,
                                                    const std::string& group) {
  DatasetOptions options = order.data;
  DatasetTargetSizes sizes = target_sizes(order, split);
  sizes.eval_iters = order.eval_iters;
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other == split) continue;
    samples_of(sizes, other) = 0;
    options.blends.blends[static_cast<size_t>(other)].clear();
  }
  if (split != Split::kTrain) options.blends.changes.clear();
  options.blends.blends[static_cast<size_t>(split)] = {find_group(order.data.blends, split, group)};
  TrainingDatasets datasets = build_training_datasets(options, sizes);
  if (options.takes_megatron_caches) tell_what_is_cached(datasets.reports);
  if (datasets.train) return std::move(*datasets.train);
  for (auto* groups : {&datasets.valid, &datasets.test}) {
    if (!groups->empty()) return std::move(groups->front().dataset);
  }
  return std::nullopt;
}

BlendedDataset build_group(const SampleOrder& order, Split split, const std::string& group) {
  if (auto dataset = find_samples_of_group(order, split, group)) return std::move(*dataset);
  throw std::invalid_argument("the " + std::string(split_name(split)) +
                              " split has no samples in this run (--split " + order.data.split +
                              ", --eval-iters " + std::to_string(order.eval_iters) + ")");
}

}  // namespace weft
