// The number of samples of each step, the length of its sequences, and the number of steps of a
// run. [Megatron-LM core/num_microbatches_calculator.py]
#pragma once

#include <cstdint>
#include <optional>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/batches/length_curriculum.h"
#include "trainer/config/config.h"

namespace weft {

// The position of a run between two steps.
struct RunPosition {
  int64_t iteration = 0;                // finished steps
  LengthCurriculum::Consumed consumed;  // rows are what Megatron calls consumed samples
};

class BatchSchedule {
 public:
  // `config` has no problems(); its data-parallel ranks share the batches.
  explicit BatchSchedule(const Config& config);

  // The run goes on from here. With --train-samples or --train-tokens the rest is counted anew:
  // sizes may have been others before.
  void resume_at(const RunPosition& position);

  // Returns the number of samples of the step that starts after `consumed_samples`.
  int64_t global_batch_size(int64_t consumed_samples) const {
    return plan_.batch_size(consumed_samples);
  }
  // Returns the number of micro-batches of that step per data-parallel rank.
  int64_t num_micro_batches(int64_t consumed_samples) const {
    return global_batch_size(consumed_samples) / (micro_batch_size_ * dp_size_);
  }
  const LengthCurriculum& curriculum() const { return curriculum_; }
  // Returns the number of steps of the whole run; a last incomplete batch is dropped. Where
  // --train-tokens are reached first, they end it.
  int64_t num_iterations() const { return num_iterations_; }
  // The same without --train-tokens: the sizes of datasets follow from it.
  int64_t num_iterations_of_samples() const { return num_iterations_of_samples_; }
  // Returns where the run stands after so many more steps.
  RunPosition after(int64_t num_steps, const RunPosition& from = {}) const;
  // Returns where it ends if it goes on from here.
  RunPosition at_end(const RunPosition& from) const {
    return after(num_iterations_ - from.iteration, from);
  }
  int64_t largest_global_batch_size() const { return plan_.largest(); }
  // Returns the samples that the run asks of its dataset: --train-samples, or iterations times
  // batch size.
  int64_t num_train_samples() const { return num_train_samples_; }
  bool batch_size_changes() const { return plan_.changes(); }

 private:
  RunPosition walk(RunPosition from, int64_t max_steps, int64_t max_tokens) const;

  int64_t micro_batch_size_ = 0, dp_size_ = 1;
  BatchSizePlan plan_;
  LengthCurriculum curriculum_;
  std::optional<int64_t> train_tokens_;
  int64_t num_iterations_ = 0, num_iterations_of_samples_ = 0, num_train_samples_ = 0;
  bool counts_samples_ = false;  // --train-samples
};

}  // namespace weft
