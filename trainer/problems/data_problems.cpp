// The checks of datasets, of their shares by --split, and of how samples are loaded.
#include <array>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/order/samples/split.h"
#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

// Returns for train, validation and test whether the split gives it any sequence of a large
// dataset.
std::array<bool, 3> shares_of_split(const std::string& split) {
  const auto ranges = split_ranges(split, int64_t{1} << 40);
  return {ranges[0].has_value(), ranges[1].has_value(), ranges[2].has_value()};
}

// Shares of one --split; with own paths it means nothing.
void check_split(const Config& c, ProblemList& p) {
  try {
    const auto has_share = shares_of_split(c.split);
    p.add_if(!has_share[0] && !c.skip_train, "--split {} gives training 0 %", c.split);
    p.add_if(c.eval_iters > 0 && !has_share[1],
             "validation requested (--eval-iters {}) but --split {} gives it 0 %; "
             "give --eval-iters 0 or a share",
             c.eval_iters, c.split);
  } catch (const UsageError& error) {
    p.add_if(true, "--split {}: {}", c.split, error.what());
  }
}

// Names of datasets, and what they are for.
void check_blends(const Config& c, ProblemList& p) {
  try {
    const SplitBlends blends = resolve_data_paths(c.paths);
    if (!blends.has_own_paths) check_split(c, p);
    p.add_if(blends.of(Split::kTrain).empty() && !c.skip_train,
             "no dataset is named for training; give --train-data-path");
    for (const Blend& blend : blends.of(Split::kValid)) {
      p.add_if(c.full_validation && blend.prefixes.size() > 1 && !blend.weights.empty(),
               "--full-validation takes every sample of {} datasets once, so weights would mean "
               "nothing; name them without weights by --valid-data-path, or as a group each",
               blend.prefixes.size());
    }
    p.add_if(
        c.full_validation && c.eval_iters == 0,
        "--full-validation with --eval-iters 0 would validate nothing; give --eval-iters 1 or more, "
        "which is then for the test");
    p.add_if(c.eval_iters > 0 && blends.of(Split::kValid).empty(),
             "validation requested (--eval-iters {}) but no dataset is named for it; "
             "give --valid-data-path or --eval-iters 0",
             c.eval_iters);
  } catch (const std::exception& error) {
    p.add_if(true, "{}", error.what());
  }
}

}  // namespace

void check_data(const Config& c, ProblemList& p) {
  if (!c.plans_without_data()) check_blends(c, p);
  p.add_if(!(c.mid_level_dataset_surplus >= 0),
           "--mid-level-dataset-surplus must be at least 0 (got {})", c.mid_level_dataset_surplus);
  p.add_if(c.dataloader_type != "single" && c.dataloader_type != "cyclic",
           "--dataloader-type {} is none of single, cyclic", c.dataloader_type);
  p.add_if(c.dataloader_type == "cyclic" && !c.paths.blend_schedule.empty(),
           "--dataloader-type cyclic shuffles all samples of a run, so --blend-schedule would mean "
           "nothing; leave one of them out");
  const bool resets = c.reset_position_ids || c.reset_attention_mask;
  p.add_if(c.dataloader_inter_document_masking && resets,
           "--dataloader-inter-document-masking restarts positions and masks attention at the ends "
           "of the dataset's documents, --reset-position-ids and --reset-attention-mask at "
           "end-of-document tokens; give the one or the others");
  p.add_if(c.num_workers < 1, "--num-workers must be at least 1 (got {})", c.num_workers);
  p.at_most(c.num_workers, 1024, "--num-workers");
}

void warn_of_split(const Config& config, std::vector<std::string>& warnings) {
  if (config.eval_iters > 0 && !shares_of_split(config.split)[2]) {
    warnings.push_back(
        fmt::format("--split {} gives the test set 0 %: no test at the end", config.split));
  }
}

}  // namespace weft
