#include "indexed_dataset/run_record/checkpoint_run.h"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/segment_list.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDecisive[] = {"blend_schedule",
                                     "curriculum_difficulty",
                                     "curriculum_difficulty_step",
                                     "curriculum_max_difficulty",
                                     "curriculum_max_step",
                                     "curriculum_metrics",
                                     "curriculum_metrics_seed",
                                     "curriculum_min_difficulty",
                                     "curriculum_mode",
                                     "curriculum_root_degree",
                                     "curriculum_schedule_type",
                                     "curriculum_total_step",
                                     "data_args_path",
                                     "data_path",
                                     "dataloader_type",
                                     "eval_interval",
                                     "eval_iters",
                                     "full_validation",
                                     "global_batch_size",
                                     "micro_batch_size",
                                     "mid_level_dataset_surplus",
                                     "no_data_sharding",
                                     "per_split_data_args_path",
                                     "rampup_batch_size",
                                     "sample_order",
                                     "seed",
                                     "seq_length",
                                     "split",
                                     "step_batch_size_schedule",
                                     "test_data_path",
                                     "test_weighted_split_paths",
                                     "test_weighted_split_paths_path",
                                     "train_data_path",
                                     "train_iters",
                                     "train_samples",
                                     "train_weighted_split_paths",
                                     "train_weighted_split_paths_path",
                                     "unsee",
                                     "valid_data_path",
                                     "valid_weighted_split_paths",
                                     "valid_weighted_split_paths_path"};

// These change no sample, but what is trained of it. They tell apart two ways of a run whose checkpoint does not list
// its segments.
constexpr const char* kTrained[] = {"adam_beta1",
                                    "adam_beta2",
                                    "adam_eps",
                                    "attention_dropout",
                                    "bf16",
                                    "bf16_optimizer_state",
                                    "clip_grad",
                                    "fp16",
                                    "hidden_dropout",
                                    "loss_scale",
                                    "lr",
                                    "lr_decay_iters",
                                    "lr_decay_samples",
                                    "lr_decay_style",
                                    "lr_decay_tokens",
                                    "lr_warmup_fraction",
                                    "lr_warmup_iters",
                                    "lr_warmup_samples",
                                    "lr_warmup_tokens",
                                    "min_lr",
                                    "weight_decay"};

// Returns the folder of the checkpoint that is meant.
fs::path folder_of(const fs::path& load) {
  if (fs::exists(load / "manifest.json")) return fs::absolute(load).lexically_normal();
  const fs::path tracker = load / "latest_checkpointed_iteration.txt";
  if (!fs::exists(tracker)) {
    throw std::runtime_error(
        load.string() +
        ": there is no checkpoint of weft-train: neither latest_checkpointed_iteration.txt nor "
        "manifest.json; give the folder that --save had, or an iter_ folder in it");
  }
  const std::string text = read_text_file(tracker);
  int64_t iteration = 0;
  try {
    iteration = std::stoll(text);
  } catch (const std::exception&) {
    throw std::runtime_error(tracker.string() + ": no iteration, but \"" + text.substr(0, 40) +
                             "\"");
  }
  return fs::absolute(load / fmt::format("iter_{:07}", iteration)).lexically_normal();
}

// Returns the folder with the run manifest and the copies of files of --unsee, if it is there.
std::optional<fs::path> find_run_folder(const fs::path& checkpoint, const Json& arguments) {
  const fs::path beside =
      checkpoint.has_filename() ? checkpoint.parent_path() : checkpoint.parent_path().parent_path();
  if (fs::exists(beside / "run_manifest.json")) return beside;
  const auto run_dir = arguments.find("run_dir");
  if (run_dir == arguments.end() || !run_dir->is_string()) return std::nullopt;
  const fs::path folder = run_dir->get<std::string>();
  if (folder.empty() || !fs::exists(folder / "run_manifest.json")) return std::nullopt;
  return folder;
}

// Returns the segments that began before a checkpoint of an older version.
std::vector<Json> segments_of_run_manifest(const std::optional<fs::path>& run_folder,
                                           int64_t iteration) {
  if (!run_folder) {
    throw std::runtime_error(
        "no run_manifest.json lies beside the checkpoint or in the --run-dir that it names, and "
        "without it nothing tells where this part of the run began; give the run's folder with --run");
  }
  read_run_segments(*run_folder);  // refuses a manifest that metrics.jsonl contradicts
  const fs::path path = *run_folder / "run_manifest.json";
  std::vector<Json> segments = read_manifest_segments(path);
  std::erase_if(segments, [&](const Json& segment) {
    return find_json_integer(segment, "resumed_iteration").value_or(0) >= iteration;
  });
  if (segments.empty())
    throw std::runtime_error(
        fmt::format("{} tells of iterations behind {} only", path.string(), iteration));
  return segments;
}

std::string shortened(const Json& value) {
  constexpr size_t kMostBytes = 200;
  const std::string text = value.dump();
  return text.size() <= kMostBytes ? text : std::string(beginning_of(text, kMostBytes)) + " ...";
}

// Returns the first place where two values differ, as "/train/0/weights/3", and what stands there: a whole
// blend of many datasets would tell nobody where.
struct JsonDifference {
  std::string place, a, b;
};
JsonDifference first_difference(const Json& a, const Json& b) {
  const Json steps = Json::diff(a, b);
  const std::string place = steps.empty() ? "" : steps[0].at("path").get<std::string>();
  const auto at_place = [&](const Json& json) {
    const Json::json_pointer pointer(place);
    return json.contains(pointer) ? shortened(json.at(pointer)) : std::string("nothing");
  };
  return {place, at_place(a), at_place(b)};
}

void check_agreement(const Json& checkpoint, const Json& segment,
                     std::initializer_list<std::span<const char* const>> lists_of_arguments) {
  const Json &saved = checkpoint.at("arguments"), &told = segment.at("arguments");
  const auto refuse = [&](const std::string& what, const Json& a, const Json& b) {
    const JsonDifference first = first_difference(a, b);
    throw std::runtime_error(fmt::format(
        "it contradicts the run manifest: {}{} is {} in the checkpoint and {} in the manifest; the two "
        "are not of one run, give the right folder with --run",
        what, first.place.empty() ? "" : " at " + first.place, first.a, first.b));
  };
  for (const std::span<const char* const> names : lists_of_arguments) {
    for (const char* name : names) {
      const auto a = saved.find(name), b = told.find(name);
      if (a == saved.end() || b == told.end() || *a == *b)
        continue;  // one version lacks the option
      refuse(name, *a, *b);
    }
  }
  const Json none = Json::object();
  const Json& data = checkpoint.contains("data") ? checkpoint["data"] : none;
  if (data.contains("datasets") && segment.contains("datasets") &&
      data["datasets"] != segment["datasets"])
    refuse("the list of datasets", data["datasets"], segment["datasets"]);
  // Older versions kept no blends in checkpoints.
  if (data.contains("blends") && segment.contains("blends") && data["blends"] != segment["blends"])
    refuse("the blend of its datasets", data["blends"], segment["blends"]);
}

struct ListedRun {
  CheckpointRun run;
  std::vector<Json> segments;
};

ListedRun read_listed_run(const fs::path& load) {
  const fs::path folder = folder_of(load), path = folder / "manifest.json";
  ListedRun listed;
  auto& [run, segments] = listed;
  try {
    Json manifest = parse_json<Json>(read_file(path));
    take_checksum(manifest, path);
    const Json& checkpoint = manifest.at("info");
    run.iteration = json_integer_at(checkpoint, "iteration");
    if (run.iteration < 1)
      throw std::runtime_error("no iteration stands behind it: its weights were imported");
    const std::optional<fs::path> run_folder = find_run_folder(folder, checkpoint.at("arguments"));
    const auto own = checkpoint.find("run_segments");
    segments = own != checkpoint.end() ? segments_of_list(*own)
                                       : segments_of_run_manifest(run_folder, run.iteration);
    if (segments.empty()) throw std::runtime_error("it lists no segment of its run");
    run.segments = segments_from(segments, run_folder.value_or(folder));
    const bool is_older = own == checkpoint.end();
    check_agreement(checkpoint, segments.back(),
                    {kDecisive, is_older ? std::span(kTrained) : std::span<const char* const>()});
    const int64_t consumed = samples_of_iteration(run.segments, run.iteration).last;
    const int64_t saved = json_integer_at(checkpoint, "consumed_train_samples");
    if (consumed == saved) return listed;
    throw std::runtime_error(fmt::format(
        "it was saved after {} samples, and by the segments of its run iteration {} ends with {}: "
        "the two are not of one run",
        saved, run.iteration, consumed));
  } catch (const ChecksumMismatch&) {
    throw;  // it names its file
  } catch (const std::system_error&) {
    throw;  // so does this
  } catch (const Json::exception& error) {
    throw std::runtime_error(path.string() + ": not the manifest of a checkpoint: " + error.what());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace

std::span<const char* const> decisive_arguments() { return kDecisive; }

CheckpointRun read_run_of_checkpoint(const std::filesystem::path& load) {
  return read_listed_run(load).run;
}

Json list_segments_before(const std::filesystem::path& load) {
  return list_segments(read_listed_run(load).segments);
}

}  // namespace weft
