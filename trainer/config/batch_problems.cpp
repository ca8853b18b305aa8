// The checks of batch sizes and of the run's length.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "trainer/config/problem_list.h"

namespace weft {

namespace {

// Returns the first step with a batch of start + increment samples. [data/batch_schedule.h]
int64_t first_step_of_increment(const Config& c) {
  const int64_t start = c.rampup_batch_size[0], increment = c.rampup_batch_size[1];
  const int64_t num_increments = (c.global_batch() - start) / increment;
  const double samples =
      static_cast<double>(c.rampup_batch_size[2]) / static_cast<double>(num_increments);
  return static_cast<int64_t>(std::ceil(samples / static_cast<double>(start))) + 1;
}

void check_rampup(const Config& c, ProblemList& p) {
  const auto& rampup = c.rampup_batch_size;
  if (rampup.empty()) return;
  if (rampup.size() != 3) {
    p.add_if(true, "--rampup-batch-size takes START INCREMENT SAMPLES (got {} values)",
             rampup.size());
    return;
  }
  const int64_t start = rampup[0], increment = rampup[1], samples = rampup[2],
                full = c.global_batch();
  p.add_if(!c.train_samples, "--rampup-batch-size needs --train-samples (sample-based training)");
  if (start <= 0 || increment <= 0 || samples < 0) {
    p.add_if(
        true,
        "--rampup-batch-size {} {} {}: start and increment must be positive, samples at least 0",
        start, increment, samples);
    return;
  }
  if (start >= full || (full - start) % increment != 0) {
    p.add_if(
        true,
        "--rampup-batch-size {} {} {}: "
        "from start {} to --global-batch-size {} there must be a whole number of increments of {}",
        start, increment, samples, start, full, increment);
    return;
  }
  if (c.micro_batch_size <= 0) return;
  // Where these two divide, all batches between them do.
  const int64_t unit = c.micro_batch_size * c.data_parallel_size();
  const int64_t wrong = start % unit != 0 ? start : start + increment;
  if (wrong % unit == 0) return;
  p.add_if(true,
           "--rampup-batch-size {} {} {} reaches a batch of {} in step {}, "
           "not a multiple of --micro-batch-size {} times data-parallel size {}",
           start, increment, samples, wrong, wrong == start ? 1 : first_step_of_increment(c),
           c.micro_batch_size, c.data_parallel_size());
}

void check_batch_steps(const Config& c, ProblemList& p) {
  if (c.step_batch_size_schedule.empty() || c.seq_length <= 0) return;
  p.add_if(!c.rampup_batch_size.empty(),
           "--step-batch-size-schedule and --rampup-batch-size exclude each other");
  p.add_if(!c.train_samples,
           "--step-batch-size-schedule needs --train-samples (sample-based training)");
  const BatchSizePlan plan = c.batch_size_plan();
  p.add_if(
      c.global_batch_size && *c.global_batch_size != plan.last(),
      "--global-batch-size {} is not the last size of --step-batch-size-schedule, {}: leave it "
      "out",
      c.global_batch_size.value_or(0), plan.last());
  if (c.micro_batch_size <= 0) return;
  const int64_t unit = c.micro_batch_size * c.data_parallel_size();
  for (const int64_t size : plan.sizes()) {
    p.add_if(
        size % unit != 0,
        "--step-batch-size-schedule has a batch of {}, not a multiple of --micro-batch-size {} "
        "times data-parallel size {}; sizes that are in the past may be changed to one",
        size, c.micro_batch_size, c.data_parallel_size());
  }
}

}  // namespace

void check_step_schedule(Config& c, ProblemList& p) {
  if (c.step_batch_size_schedule.empty()) return;
  try {
    if (c.seq_length > 0) {
      c.batch_size_plan();
      return;
    }
  } catch (const std::invalid_argument& error) {
    p.add_if(true, "{}", error.what());
  }
  c.step_batch_size_schedule.clear();
}

void check_duration(const Config& c, ProblemList& p) {
  p.required(c.micro_batch_size, "--micro-batch-size");
  p.positive(c.global_batch_size, "--global-batch-size");
  p.positive(c.train_iters, "--train-iters");
  p.positive(c.train_samples, "--train-samples");
  p.positive(c.train_tokens, "--train-tokens");
  p.positive(c.exit_interval, "--exit-interval");
  p.add_if(
      c.global_batch_size && c.micro_batch_size > 0 &&
          *c.global_batch_size % (c.micro_batch_size * c.data_parallel_size()) != 0,
      "--global-batch-size {} is not a multiple of --micro-batch-size {} times data-parallel size {}",
      c.global_batch_size.value_or(0), c.micro_batch_size, c.data_parallel_size());
  p.add_if(!c.train_iters && !c.train_samples,
           "one of --train-iters and --train-samples is required");
  p.add_if(c.train_iters && c.train_samples,
           "--train-iters {} and --train-samples {} exclude each other", c.train_iters.value_or(0),
           c.train_samples.value_or(0));
  const int64_t first_batch =
      c.rampup_batch_size.empty() ? c.batch_size_plan().batch_size(0) : c.rampup_batch_size[0];
  p.add_if(c.train_samples.value_or(0) > 0 && *c.train_samples < first_batch,
           "--train-samples {} is less than one batch of {}: nothing would be trained",
           c.train_samples.value_or(0), first_batch);
  p.add_if(c.exit_duration_in_mins && !(*c.exit_duration_in_mins > 0),
           "--exit-duration-in-mins must be positive (got {})",
           c.exit_duration_in_mins.value_or(0));
  p.add_if(c.eval_iters < 0, "--eval-iters must be at least 0 (got {})", c.eval_iters);
  p.positive(c.eval_interval, "--eval-interval");
  check_rampup(c, p);
  check_batch_steps(c, p);
}

}  // namespace weft
