// The batch sizes of a run, which may change with the samples that were consumed.
// [Megatron-LM core/num_microbatches_calculator.py]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

class BatchSizePlan {
 public:
  // All batches have `full` samples, or they grow to it: `rampup` holds START INCREMENT SAMPLES of
  // --rampup-batch-size. Values that make no ramp (weft-train refuses them) count as none.
  explicit BatchSizePlan(int64_t full, const std::vector<int64_t>& rampup = {});

  // Reads --step-batch-size-schedule: "TOKENS:SIZE TOKENS:SIZE ...", separated by spaces or commas.
  // From each number of tokens on, which is divided by the sequence length and rounded down,
  // batches have that size. The first number is 0, and they increase; numbers may end with K, M, B
  // or T (10^3 to 10^12). Throws UsageError in words of the option.
  static BatchSizePlan of_steps(const std::string& schedule, int64_t sequence_length);

  // As both options say together: the step schedule, and without one ("") the ramp-up to `full`.
  static BatchSizePlan of_options(const std::string& step_schedule, int64_t full,
                                  const std::vector<int64_t>& rampup, int64_t sequence_length);

  // True if not all batches have one size.
  bool changes() const { return increment_ > 0 || steps_.size() > 1; }
  // Returns the size of the batch that starts after `consumed` samples.
  int64_t batch_size(int64_t consumed) const { return stretch_at(consumed).batch_size; }
  // True if all batches from here on have one size.
  bool is_last(int64_t consumed) const { return stretch_at(consumed).num_batches == INT64_MAX; }
  // The size at the end of the run, which evaluations have, too; and the largest one.
  int64_t last() const { return steps_.back().batch_size; }
  int64_t largest() const;
  // All sizes of a step schedule, in order.
  std::vector<int64_t> sizes() const;

  // Returns the samples that are consumed `iterations` after `consumed` were; nothing if the number
  // does not fit 64 bits. Takes time for each iteration of a ramp, and for each step.
  std::optional<int64_t> consumed_after(int64_t iterations, int64_t consumed = 0) const;
  // Returns the number of whole batches within `num_samples` after `consumed` ones.
  int64_t iterations_within(int64_t num_samples, int64_t consumed = 0) const;

 private:
  struct Step {
    int64_t first_sample = 0, batch_size = 0;
  };
  // The next `num_batches` batches have one size.
  struct Stretch {
    int64_t batch_size = 0, num_batches = 0;
  };
  BatchSizePlan() = default;
  Stretch stretch_at(int64_t consumed) const;

  std::vector<Step> steps_;  // at least one, which begins at 0
  // They describe a ramp-up and are 0 without one.
  int64_t start_ = 0, increment_ = 0, samples_ = 0;
  double samples_per_increment_ = 0;
};

}  // namespace weft
