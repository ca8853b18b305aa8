// A difficulty that changes with the iterations of a run: the three schedules of DeepSpeed's
// curricula. [DeepSpeed runtime/data_pipeline/curriculum_scheduler.py]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// The names are those of DeepSpeed's JSON, but for total_step, which is total_curriculum_step
// there.
struct CurriculumOptions {
  std::string schedule_type = {};  // fixed_linear, fixed_root or fixed_discrete; "": there is none
  std::string mode = "truncate";   // what it means for sequences: length_curriculum.h
  // Tokens, where sequences grow; max 0 then means the run's sequence length.
  int64_t min_difficulty = 0, max_difficulty = 0;
  // With fixed_linear and fixed_root the difficulty at iteration t is
  // (t / total_step)^(1 / root_degree) * (max - min) + min, rounded down to difficulty_step.
  int64_t total_step = 0, difficulty_step = 8, root_degree = 2;
  // With fixed_discrete it is difficulty[i] up to iteration max_step[i], then the last one.
  std::vector<int64_t> difficulty = {}, max_step = {};
};

// Iterations from `first_iteration` on have this difficulty, up to the next stretch.
struct DifficultyStretch {
  int64_t first_iteration = 1, difficulty = 0;
};

// Lists the stretches of a schedule, with max_difficulty resolved; the first one begins with
// iteration 1. Throws UsageError for options that make no schedule; the names of the
// options in it follow `prefix`.
std::vector<DifficultyStretch> difficulty_stretches(const CurriculumOptions& options,
                                                    const std::string& prefix);

}  // namespace weft
