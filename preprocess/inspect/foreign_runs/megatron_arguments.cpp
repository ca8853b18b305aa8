#include "preprocess/inspect/foreign_runs/megatron_arguments.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/order/blends/sample_arguments.h"
#include "preprocess/inspect/foreign_runs/argument_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<std::string>;

constexpr std::string_view kWeightedSplits[] = {"train_weighted_split_", "valid_weighted_split_",
                                                "test_weighted_split_"};
// With any of these a run takes samples that are not computed here. Others that look like it change
// none: repeated_dataloader begins anew behind the last sample, which no run reaches, and
// sample_rate is of images.
constexpr std::string_view kUnknown[] = {
    "mock_data",
    "fim_data",
    "sft",
    "data_efficiency_curriculum_learning",
    "decrease_batch_size_if_needed",
    "phase_transition_iterations",
    "skip_train_iteration_range",
    "iterations_to_skip",
    "hybrid_context_parallel",
    "packing_impl",
    "sequence_packing_scheduler",
    "use_varlen_dataset",
    "perform_rl_step",
    "logits_load_inputs",
    "retro_add_retriever",
    "renormalize_blend_weights",
    "train_data_exact_num_epochs",
    "train_idx_path",
    "train_desc_path",
    "train_doc_idx_path",
    "train_sample_idx_path",
    "train_shuffle_idx_path",
};

// With any of these only the samples of training are those that are computed here.
constexpr std::string_view kUnknownEvaluations[] = {"full_validation", "multiple_validation_sets",
                                                    "start_eval_at_iter"};

// These are translated below, or told by --sample-order.
constexpr std::string_view kOthers[] = {"sample_order", "full_validation", "no_data_sharding"};

Json number_of(const std::string& name, const std::string& text) {
  const auto number = parse_int64(text);
  if (!number) throw_bad_arguments(name + " is '" + text + "', which is no integer");
  return *number;
}

// The values of an argument as the manifest of a run has them; the last parameter tells the type.
Json json_of(const std::string& name, const Values& values, int64_t) {
  return number_of(name, values.front());
}
Json json_of(const std::string& name, const Values& values, const std::optional<int64_t>&) {
  return number_of(name, values.front());
}
Json json_of(const std::string& name, const Values& values, const std::vector<int64_t>&) {
  Json numbers = Json::array();
  for (const std::string& value : values) numbers.push_back(number_of(name, value));
  return numbers;
}
Json json_of(const std::string& name, const Values& values, double) {
  Json number = Json::parse(values.front(), nullptr, false);
  if (!number.is_number())
    throw_bad_arguments(name + " is '" + values.front() + "', which is no number");
  return number;
}
Json json_of(const std::string&, const Values& values, const std::vector<std::string>&) {
  return values;
}
Json json_of(const std::string&, const Values& values, const std::string&) {
  return values.front();
}
Json json_of(const std::string&, const Values& values, bool) { return values.front() != "False"; }
Json json_of(const std::string&, const Values& values, OrderKind) { return values.front(); }

const Values* find(const Arguments& arguments, std::string_view name) {
  const auto found = arguments.find(std::string(name));
  return found == arguments.end() || found->second.empty() ? nullptr : &found->second;
}

bool is_set(const Arguments& arguments, std::string_view name) {
  const Values* values = find(arguments, name);
  return values && values->front() != "False";
}

void refuse_unknown(const Arguments& arguments) {
  std::string given;
  for (const std::string_view name : kUnknown) {
    if (!is_set(arguments, name)) continue;
    given += (given.empty() ? "" : ", ") + std::string(name) + " " + find(arguments, name)->front();
  }
  if (!given.empty())
    throw_bad_arguments("with " + given + " a run takes samples that are not computed here");
}

// Returns the arguments for which the samples of evaluations are not known, or nothing.
std::string unknown_evaluations(const Arguments& arguments) {
  std::string given;
  const auto add = [&](std::string_view name) {
    given += (given.empty() ? "" : ", ") + std::string(name) + " " + find(arguments, name)->front();
  };
  for (const std::string_view name : kUnknownEvaluations) {
    if (is_set(arguments, name)) add(name);
  }
  // Megatron prints the sizes of training batches here where nothing else was asked for.
  for (const std::string name : {"global_batch_size", "micro_batch_size"}) {
    const Values *of_evaluation = find(arguments, "eval_" + name),
                 *of_training = find(arguments, name);
    if (of_evaluation && (!of_training || *of_evaluation != *of_training)) add("eval_" + name);
  }
  return given;
}

// Returns the object if it is there and not switched off.
const Json* find_enabled(const Json& json, const char* name) {
  const auto found = json.find(name);
  const bool is_enabled =
      found != json.end() && found->is_object() && found->value("enabled", false);
  return is_enabled ? &*found : nullptr;
}

// Adds the curriculum of sequence lengths that DeepSpeed's file asks for, if it does.
void add_curriculum(const std::string& path, Json& arguments) {
  const std::string where = "deepspeed_config " + path + ": ";
  try {
    const Json file = parse_json<Json>(read_file(path));
    if (const Json* efficiency = find_enabled(file, "data_efficiency")) {
      if (find_enabled(*efficiency, "data_sampling")) {
        throw_bad_arguments(
            where +
            "with data_efficiency DeepSpeed's own sampler draws samples by their difficulty, in an order that is "
            "not computed here");
      }
    }
    const Json* curriculum = find_enabled(file, "curriculum_learning");
    if (!curriculum) return;
    if (curriculum->value("curriculum_type", "seqlen") != "seqlen")
      throw_bad_arguments(where + "a curriculum other than seqlen is not computed here");
    arguments["curriculum_schedule_type"] = curriculum->at("schedule_type");
    for (const std::string name : {"min_difficulty", "max_difficulty"}) {
      if (curriculum->contains(name)) arguments["curriculum_" + name] = (*curriculum)[name];
    }
    const Json schedule = curriculum->value("schedule_config", Json::object());
    for (const auto& [name, known] : {std::pair{"total_curriculum_step", "curriculum_total_step"},
                                      {"difficulty_step", "curriculum_difficulty_step"},
                                      {"root_degree", "curriculum_root_degree"},
                                      {"difficulty", "curriculum_difficulty"},
                                      {"max_step", "curriculum_max_step"}}) {
      if (schedule.contains(name)) arguments[known] = schedule[name];
    }
  } catch (const Json::exception& error) {
    throw_bad_arguments(where + "not the file of a curriculum: " + error.what());
  }
}

// DeepSpeed reads its curricula from a file, after Megatron has printed its arguments.
void add_deepspeed_file(const Arguments& arguments, Json& json) {
  for (const std::string name : {"deepspeed_config", "deepscale_config"}) {
    const Values* values = find(arguments, name);
    if (!values) continue;
    const std::string& path = values->front();
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      throw_bad_arguments(
          "with " + name + " " + path +
          " a run follows that file, too, which is not there; put it there, or name another place of it in the "
          "arguments; if it has neither curriculum_learning nor data_efficiency, take " +
          name + " out of them");
    }
    add_curriculum(path, json);
  }
  for (const std::string name : {"curriculum_learning", "curriculum_learning_legacy"}) {
    if (!is_set(arguments, name) || json.contains("curriculum_schedule_type")) continue;
    throw_bad_arguments(
        "with " + name + " " + find(arguments, name)->front() +
        " a run has a curriculum of DeepSpeed, but no deepspeed_config tells which one");
  }
}

// Returns the groups of datasets of one split, "NAME: WEIGHT BEGIN:END PREFIX, ...". The program
// replaces them by lists of what each is made of before it prints its arguments.
Values weighted_splits(const Arguments& arguments, const std::string& begin) {
  const Values* paths = find(arguments, begin + "paths");
  if (!paths) return {};
  const Values *names = find(arguments, begin + "names"),
               *weights = find(arguments, begin + "weights"),
               *splits = find(arguments, begin + "splits");
  if (!names) return *paths;
  Values groups;
  for (size_t i = 0; i < paths->size(); ++i) {
    const auto list_of = [&](const Values* lists) {
      return lists && i < lists->size() ? python_values((*lists)[i]) : Values();
    };
    const Values path = list_of(paths), weight = list_of(weights), split = list_of(splits);
    if (names->size() != paths->size() || weight.size() != path.size() ||
        split.size() != path.size())
      throw_bad_arguments(begin + "paths, names, weights and splits do not fit each other");
    std::string& group = groups.emplace_back((*names)[i] + ":");
    for (size_t k = 0; k < path.size(); ++k)
      group += (k == 0 ? " " : ", ") + weight[k] + " " + split[k] + " " + path[k];
  }
  return groups;
}

// In a banner the folder already stands before each word of data_path (argument_text.cpp).
void check_download_path(const Arguments& arguments) {
  const Values *folder = find(arguments, "aml_data_download_path"),
               *paths = find(arguments, "data_path");
  if (!folder || !paths) return;
  for (const std::string& path : *paths) {
    if (path.starts_with(folder->front() + "/")) continue;
    throw_bad_arguments(
        "with aml_data_download_path " + folder->front() +
        " the program looks for data_path in that folder: write whole paths there, and take "
        "aml_data_download_path out of the arguments");
  }
}

Json converted(const Arguments& arguments) {
  check_download_path(arguments);
  // Megatron's defaults.
  Json json = {
      {"split", "969, 30, 1"}, {"seed", 1234}, {"eval_iters", 100}, {"eval_interval", 1000}};
  const auto translate = [&](const auto& field, const auto& value) {
    const std::string name = field.name();
    if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers)) return;
    if (const Values* values = find(arguments, name)) json[name] = json_of(name, *values, value);
  };
  const SampleArguments types;
  visit_sample_fields(translate, types);
  for (const char* name : {"data_cache_path", "vocab_file", "merge_file"}) {
    if (const Values* values = find(arguments, name)) json[name] = values->front();
  }
  for (const std::string_view begin : kWeightedSplits) {
    const std::string name(begin);
    if (Values groups = weighted_splits(arguments, name); !groups.empty())
      json[name + "paths"] = std::move(groups);
    if (const Values* file = find(arguments, name + "paths_path"))
      json[name + "paths_path"] = file->front();
  }
  if (const Values* sharding = find(arguments, "data_sharding"); sharding)
    json["no_data_sharding"] = sharding->front() == "False";
  if (find(arguments, "no_data_sharding")) json["no_data_sharding"] = true;
  add_deepspeed_file(arguments, json);
  return json;
}

// Nothing is guessed that decides which samples a run takes.
void check_told(const Json& manifest) {
  const Json& arguments = manifest["arguments"];
  if (!arguments.contains("seq_length")) throw_bad_arguments("it does not tell seq_length");
  if (!arguments.contains("train_samples") && !arguments.contains("train_iters"))
    throw_bad_arguments("it tells neither train_samples nor train_iters");
  if (!arguments.contains("global_batch_size"))
    throw_bad_arguments(
        "it tells neither global_batch_size, nor micro_batch_size and data_parallel_size "
        "(--data-parallel-size)");
  const std::string loader = arguments.value("dataloader_type", "single");
  if (loader != "single" && loader != "cyclic")
    throw_bad_arguments("with dataloader_type " + loader +
                        " a run takes samples that are not computed here");
  if (loader == "cyclic" &&
      !(manifest.contains("data_parallel_size") && arguments.contains("micro_batch_size")))
    throw_bad_arguments(
        "with dataloader_type cyclic the samples depend on micro_batch_size and data_parallel_size, "
        "which it does not both tell (--data-parallel-size)");
}

}  // namespace

Json parse_megatron_arguments(std::string_view text, std::optional<int64_t> data_parallel_size) {
  const Arguments arguments = parse_argument_text(text);
  refuse_unknown(arguments);
  Json manifest = {{"arguments", converted(arguments)}};
  if (const std::string given = unknown_evaluations(arguments); !given.empty())
    manifest["unknown_evaluations"] = given;
  if (const Values* size = find(arguments, "data_parallel_size"))
    manifest["data_parallel_size"] = number_of("data_parallel_size", size->front());
  if (data_parallel_size) {
    if (manifest.value("data_parallel_size", *data_parallel_size) != *data_parallel_size) {
      throw_bad_arguments("it tells data_parallel_size " + manifest["data_parallel_size"].dump() +
                          ", and --data-parallel-size is " + std::to_string(*data_parallel_size) +
                          ": leave the option out");
    }
    manifest["data_parallel_size"] = *data_parallel_size;
  }
  Json& told = manifest["arguments"];
  // Megatron's default: one micro-batch of each rank.
  int64_t batch = 0;
  if (!told.contains("global_batch_size") && told.contains("micro_batch_size") &&
      manifest.contains("data_parallel_size") &&
      !__builtin_mul_overflow(told["micro_batch_size"].get<int64_t>(),
                              manifest["data_parallel_size"].get<int64_t>(), &batch))
    told["global_batch_size"] = batch;
  check_told(manifest);
  return manifest;
}

}  // namespace weft
