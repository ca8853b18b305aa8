#include "preprocess/inspect/commands/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/run_record/checkpoint_run.h"
#include "indexed_dataset/run_record/manifest_order.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/foreign_runs/megatron_arguments.h"

namespace weft {

void RunOptions::declare(OptionSet& options) {
  options.text("--run", run_folder,
               "a training run's folder: its run_manifest.json gives all options down to "
               "--data-parallel-size");
  options.text("--load", checkpoint,
               "instead of --run: a folder of checkpoints, or one of them; the run up to there");
  const size_t num_before = options.resolved().size();
  options.text(
      "--megatron-args", megatron_arguments_,
      "a file with the arguments of a run of Megatron: the banner of its log, or the words "
      "of its command line; --sample-order says which Megatron it was");
  order_.declare(options, /*ranks=*/true);
  const auto declared = options.resolved();
  for (size_t i = num_before; i < declared.size(); ++i) names_.push_back(declared[i].first);
  vocabulary.declare(options, "the one in the run's or the dataset's manifest");
}

void RunOptions::validate(OptionSet& options, bool needs_batch) const {
  order_.validate_values(options);
  vocabulary.validate(options);
  const char* given = !run_folder.empty() ? "--run" : "--load";
  if (!run_folder.empty() && !checkpoint.empty())
    options.problem("--run and --load both say which run is meant: give one of them");
  const bool has_folder = !run_folder.empty() || !checkpoint.empty();
  if (!megatron_arguments_.empty() && !has_folder) {
    for (const std::string& name : names_) {
      const bool goes_with = name == "megatron-args" || name == "sample-order" ||
                             name == "data-cache-path" || name == "dataset-description" ||
                             name == "data-parallel-size";
      if (!goes_with && options.given("--" + name))
        options.problem("--megatron-args already tells the arguments: leave --" + name + " out");
    }
    if (!options.given("--sample-order")) {
      options.problem(
          "--sample-order is required with --megatron-args, which do not tell which program it was: "
          "core, core-0.10, legacy, bigscience or neox");
    }
    return;
  }
  if (!has_folder) {
    if (order_.order().paths.empty())
      options.problem("--data-path is required without --run or --load");
    order_.validate(options, needs_batch);
    return;
  }
  for (const std::string& name : names_) {
    if (options.given("--" + name))
      options.problem(
          fmt::format("{} already says how the run was trained: leave --{} out", given, name));
  }
}

RunTimeline RunOptions::read() const {
  if (!run_folder.empty()) return read_run(run_folder);
  if (!checkpoint.empty()) return read_run_of_checkpoint(checkpoint);
  std::vector<RunSegment> segments(1);
  SampleOrder& order = segments[0].order;
  if (!megatron_arguments_.empty()) {
    auto manifest =
        parse_megatron_arguments(read_file(megatron_arguments_), order_.order().data_parallel_size);
    manifest["arguments"]["sample_order"] = name_of(order_.order().sample_order);
    const std::string& cache_path = order_.order().cache_path;
    if (!cache_path.empty()) manifest["arguments"]["data_cache_path"] = cache_path;
    order = sample_order_from(manifest);
    segments[0].unknown_evaluations = manifest.value("unknown_evaluations", "");
    order.tokenizer_text = order_.tokenizer_text();
    order.takes_megatron_caches = true;
    return RunTimeline(std::move(segments));
  }
  order = order_.resolved();
  order.maps_caches_only = true;  // a look writes nothing: the folder may be another user's
  order.tokenizer = vocabulary.files();
  return RunTimeline(std::move(segments));
}

std::shared_ptr<const Vocabulary> RunOptions::find_vocabulary_of(
    const RunSegment& segment, const std::filesystem::path& prefix) const {
  const SampleOrder& data = segment.order;
  TokenizerFiles files = vocabulary.files();
  if (files.empty()) files = data.tokenizer;
  const auto [found, is_new] = vocabularies_.try_emplace({prefix.string(), files}, nullptr);
  if (is_new) found->second = find_vocabulary(prefix, files);
  return found->second;
}

void SplitOptions::declare(OptionSet& options) {
  options.choice("--split-name", split,
                 {{"train", Split::kTrain}, {"valid", Split::kValid}, {"test", Split::kTest}},
                 "which split");
  options.text("--group", group, "which of several groups of validation or test datasets");
}

std::string SplitOptions::name() const {
  const std::string split_text(short_split_name(split));
  return group.empty() ? split_text : split_text + " " + group;
}

}  // namespace weft
