#include "indexed_dataset/order/batches/batch_size_problems.h"

#include <fmt/format.h>

#include <cmath>

#include "indexed_dataset/order/batches/batch_size_plan.h"

namespace weft {
namespace {

// Returns the samples of one micro-batch of all ranks; nothing where they are not told.
std::optional<int64_t> unit_of(const BatchSizeOptions& o) {
  int64_t unit = 0;
  if (!o.micro_batch_size || !o.data_parallel_size || *o.micro_batch_size < 1 ||
      *o.data_parallel_size < 1 ||
      __builtin_mul_overflow(*o.micro_batch_size, *o.data_parallel_size, &unit))
    return std::nullopt;
  return unit;
}

// Returns the first step with a batch of start + increment samples. [batch_size_plan.h]
int64_t first_step_of_increment(const std::vector<int64_t>& ramp, int64_t full) {
  const int64_t num_increments = (full - ramp[0]) / ramp[1];
  const double samples = static_cast<double>(ramp[2]) / static_cast<double>(num_increments);
  return static_cast<int64_t>(std::ceil(samples / static_cast<double>(ramp[0]))) + 1;
}

void check_full_batch(const BatchSizeOptions& o, std::vector<std::string>& problems) {
  const auto unit = unit_of(o);
  if (!o.global_batch_size || !unit || *o.global_batch_size % *unit == 0) return;
  problems.push_back(fmt::format(
      "--global-batch-size {} is not a multiple of --micro-batch-size {} times data-parallel size {}",
      *o.global_batch_size, *o.micro_batch_size, *o.data_parallel_size));
}

void check_rampup(const BatchSizeOptions& o, std::vector<std::string>& problems) {
  const auto& ramp = o.rampup_batch_size;
  if (ramp.empty()) return;
  if (ramp.size() != 3) {
    problems.push_back(fmt::format(
        "--rampup-batch-size takes START INCREMENT SAMPLES (got {} values)", ramp.size()));
    return;
  }
  const int64_t start = ramp[0], increment = ramp[1], samples = ramp[2];
  if (start <= 0 || increment <= 0 || samples < 0) {
    problems.push_back(fmt::format(
        "--rampup-batch-size {} {} {}: start and increment must be positive, samples at least 0",
        start, increment, samples));
    return;
  }
  if (!o.global_batch_size) return;
  const int64_t full = *o.global_batch_size;
  if (start >= full || (full - start) % increment != 0) {
    problems.push_back(fmt::format(
        "--rampup-batch-size {} {} {}: "
        "from start {} to --global-batch-size {} there must be a whole number of increments of {}",
        start, increment, samples, start, full, increment));
    return;
  }
  const auto unit = unit_of(o);
  if (!unit) return;
  // Where these two divide, all batches between them do.
  const int64_t wrong = start % *unit != 0 ? start : start + increment;
  if (wrong % *unit == 0) return;
  problems.push_back(fmt::format(
      "--rampup-batch-size {} {} {} reaches a batch of {} in step {}, "
      "not a multiple of --micro-batch-size {} times data-parallel size {}",
      start, increment, samples, wrong, wrong == start ? 1 : first_step_of_increment(ramp, full),
      *o.micro_batch_size, *o.data_parallel_size));
}

void check_batch_steps(const BatchSizeOptions& o, std::vector<std::string>& problems) {
  if (o.step_batch_size_schedule.empty() || o.sequence_length <= 0) return;
  if (!o.rampup_batch_size.empty())
    problems.emplace_back("--step-batch-size-schedule and --rampup-batch-size exclude each other");
  const BatchSizePlan plan = BatchSizePlan::of_steps(o.step_batch_size_schedule, o.sequence_length);
  if (o.global_batch_size && *o.global_batch_size != plan.last()) {
    problems.push_back(fmt::format(
        "--global-batch-size {} is not the last size of --step-batch-size-schedule, {}: leave it out",
        *o.global_batch_size, plan.last()));
  }
  const auto unit = unit_of(o);
  if (!unit) return;
  for (const int64_t size : plan.sizes()) {
    if (size % *unit == 0) continue;
    problems.push_back(fmt::format(
        "--step-batch-size-schedule has a batch of {}, not a multiple of --micro-batch-size {} "
        "times data-parallel size {}; sizes that are in the past may be changed to one",
        size, *o.micro_batch_size, *o.data_parallel_size));
  }
}

}  // namespace

std::vector<std::string> batch_size_problems(const BatchSizeOptions& options) {
  std::vector<std::string> problems;
  check_full_batch(options, problems);
  check_rampup(options, problems);
  check_batch_steps(options, problems);
  return problems;
}

}  // namespace weft
