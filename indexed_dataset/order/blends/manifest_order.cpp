#include "indexed_dataset/order/blends/manifest_order.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/order/blends/blend_json.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Returns nothing if the value is absent or null. Integers are found by find_json_integer().
template <typename T>
std::optional<T> find_value(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

std::vector<int64_t> find_integers(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return {};
  return json_integers_at(arguments, name);
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
  return {
      .data_path = find_list(arguments, "data_path"),
      .train_data_path = find_list(arguments, "train_data_path"),
      .valid_data_path = find_list(arguments, "valid_data_path"),
      .test_data_path = find_list(arguments, "test_data_path"),
      .data_args_path = find_text(arguments, "data_args_path"),
      .per_split_data_args_path = find_text(arguments, "per_split_data_args_path"),
      .train_weighted_split_paths = find_list(arguments, "train_weighted_split_paths"),
      .valid_weighted_split_paths = find_list(arguments, "valid_weighted_split_paths"),
      .test_weighted_split_paths = find_list(arguments, "test_weighted_split_paths"),
      .train_weighted_split_paths_path = find_text(arguments, "train_weighted_split_paths_path"),
      .valid_weighted_split_paths_path = find_text(arguments, "valid_weighted_split_paths_path"),
      .test_weighted_split_paths_path = find_text(arguments, "test_weighted_split_paths_path"),
      .blend_schedule = find_text(arguments, "blend_schedule")};
}

// Manifests of older versions and files of arguments alone have no "blends". What a file said when an older
// version read it is not known: other parts of the run may still tell theirs.
SplitBlends blends_from(const Json& manifest) {
  if (const auto found = manifest.find("blends"); found != manifest.end())
    return split_blends_from_json(*found);
  DataPaths paths = data_paths_from(manifest.at("arguments"));
  for (const std::string& file :
       {paths.data_args_path, paths.per_split_data_args_path, paths.blend_schedule,
        paths.train_weighted_split_paths_path, paths.valid_weighted_split_paths_path,
        paths.test_weighted_split_paths_path}) {
    if (file.empty() || !manifest.contains("program")) continue;
    SplitBlends unknown;
    unknown.unknown_because =
        "run_manifest.json: an older version wrote this part of it, and it does not tell what " +
        file + " said when the run began; give the arguments by hand (--data-path ...)";
    return unknown;
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
  data.sequence_length = json_integer_at(arguments, "seq_length");
  data.seed = json_integer_at(arguments, "seed");
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
        .micro_batch_size = json_integer_at(has_own ? *kept : arguments, "micro_batch_size"),
        .data_parallel_size = json_integer_at(has_own ? *kept : manifest, "data_parallel_size"),
        .shards = !find_value<bool>(arguments, "no_data_sharding").value_or(false)};
  }
  if (const std::string metrics = find_text(arguments, "curriculum_metrics"); !metrics.empty()) {
    data.curriculum = MetricCurriculum{
        .metrics = metrics,
        .seed = find_json_integer(arguments, "curriculum_metrics_seed").value_or(1234),
        .global_batch_size = json_integer_at(arguments, "global_batch_size"),
        .rampup_batch_size = find_integers(arguments, "rampup_batch_size"),
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
  const auto read = [&](const char* name, int64_t& value) {
    value = find_json_integer(arguments, name).value_or(value);
  };
  options.mode = find_value<std::string>(arguments, "curriculum_mode").value_or(options.mode);
  read("curriculum_min_difficulty", options.min_difficulty);
  read("curriculum_max_difficulty", options.max_difficulty);
  read("curriculum_total_step", options.total_step);
  read("curriculum_difficulty_step", options.difficulty_step);
  read("curriculum_root_degree", options.root_degree);
  options.difficulty = find_integers(arguments, "curriculum_difficulty");
  options.max_step = find_integers(arguments, "curriculum_max_step");
  return options;
}

// One divides by these.
void check_positive(const std::optional<int64_t>& value, const char* name) {
  if (value && *value < 1)
    throw std::runtime_error(std::string(name) + " is " + std::to_string(*value));
}

}  // namespace

SampleOrder sample_order_from(const Json& manifest) {
  const Json& arguments = manifest.at("arguments");
  SampleOrder order;
  order.data = dataset_options_from(manifest);
  if (const auto samples = manifest.find("dataset_samples"); samples != manifest.end()) {
    order.asked_samples =
        DatasetTargetSizes{.train_samples = json_integer_at(*samples, "train"),
                           .valid_samples = json_integer_at(*samples, "validation"),
                           .test_samples = json_integer_at(*samples, "test")};
  }
  order.train_samples = find_json_integer(arguments, "train_samples");
  // Megatron derives train_iters from train_samples and keeps both: the samples were what was asked
  // for.
  if (!order.train_samples) order.train_iters = find_json_integer(arguments, "train_iters");
  order.eval_iters = json_integer_at(arguments, "eval_iters");
  order.eval_interval = json_integer_at(arguments, "eval_interval");
  order.global_batch_size = find_json_integer(arguments, "global_batch_size");
  if (!order.global_batch_size)
    order.global_batch_size = find_json_integer(arguments, "micro_batch_size");
  order.rampup_batch_size = find_integers(arguments, "rampup_batch_size");
  order.step_batch_size_schedule = find_text(arguments, "step_batch_size_schedule");
  order.micro_batch_size = find_json_integer(arguments, "micro_batch_size");
  order.data_parallel_size = find_json_integer(manifest, "data_parallel_size");
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

}  // namespace weft
