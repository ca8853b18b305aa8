// The check of a run's batch sizes, which weft-train and the commands that are told of a run by
// hand share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct BatchSizeOptions {
  std::optional<int64_t> global_batch_size;
  std::vector<int64_t> rampup_batch_size;  // as it was given
  std::string step_batch_size_schedule;    // empty, or BatchSizePlan::of_steps() reads it
  int64_t sequence_length = 0;             // with a step schedule
  // Without both of them it is not known which batches the ranks can share.
  std::optional<int64_t> micro_batch_size, data_parallel_size;
};

// Returns, in words of the options, why no run has these batch sizes: each of them, over the whole
// length of a ramp-up or of a schedule, must be a multiple of micro-batch size times data-parallel
// size. A size that is missing is no problem here.
std::vector<std::string> batch_size_problems(const BatchSizeOptions& options);

}  // namespace weft
