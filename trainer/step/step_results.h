// The results of steps: numbers and times that the device makes and the host reads later, while the
// next step already runs.
//
//   results.begin(num_micro_batches, {.training = true});
//   ... enqueue the step; work_done() after each forward, backward and exchange ...
//   results.end();
//   backend.synchronize(results.oldest_is_here());
//   const StepResult result = results.take();
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/parallel/pipeline_order.h"
#include "trainer/step/loss_scale.h"

namespace weft {

struct StepResult {
  double loss = 0;         // mean over all ranks' micro-batches of sum(loss * mask) / sum(mask)
  double grad_norm = 0;    // before clipping, without the loss's factor; 0 after evaluate()
  double params_norm = 0;  // after the update; 0 unless StepOptions asks for it
  StepOutcome outcome = {};
  // The loss of each sample of the global batch, in the order of samples: the mean over its
  // unmasked tokens, 0 where all are masked. Empty after evaluate(), or if none are kept.
  std::vector<float> sample_losses = {};
  // Relative errors of the fp8 products of forward, ||fp8 - bf16|| / ||bf16|| over the whole
  // batch: in every layer those of qkv, proj, fc1 and fc2. Empty unless StepOptions asks for them.
  std::vector<float> fp8_errors = {};
  float forward_ms = 0, backward_ms = 0, optimizer_ms = 0;  // time on the device
  float exchange_ms = 0;  // in which this pipeline stage exchanges tensors and waits for others
  double device_ms = 0;   // from the beginning of the step to its end, on the device
  // From the end of the step or evaluation before to the end of this one, on the device. The first
  // one has none: device_ms then.
  double since_previous_ms = 0;
};

// The samples of a global batch, as data-parallel ranks share them.
struct SharedSamples {
  int64_t most = 0;  // samples of the largest batch whose losses are kept; 0: none are
  int64_t micro_batch_size = 1, dp_rank = 0, dp_size = 1;
};

class StepResults {
 public:
  static constexpr int kInFlight = 2;

  // `num_fp8_layers` layers have fp8 products whose errors may be asked for; 0: none are.
  StepResults(Backend& backend, const SharedSamples& samples, int64_t num_fp8_layers)
      : backend_(backend), samples_(samples), num_fp8_layers_(num_fp8_layers) {}

  void plan(MemoryPlan& plan);
  // Call it after plan.allocate().
  void bind();

  // The places on the device that a step writes, (1) fp32 each; the norm and the clip factor are a
  // pair (2).
  Tensor loss() const;
  Tensor norm_and_clip() const;
  Tensor params_sum_of_squares() const;
  // (L,4,2): LinearLayers::Context's error of each product. Empty where the current step measures
  // none.
  Tensor fp8_errors() const;
  // The same for the losses of the current step's samples, fp32: of a micro-batch of this rank (B),
  // of all of this rank, and of all ranks, rank by rank. Only where keeps_samples().
  bool keeps_samples() const { return current().kind.training && samples_.most > 0; }
  Tensor losses_of_micro_batch(int64_t micro_batch_idx) const;
  Tensor losses_of_rank() const;
  Tensor losses_of_all_ranks() const;

  // A step begins on the compute stream. Throws std::logic_error where kInFlight are unread.
  struct Kind {
    bool training = false, params_norm = false, fp8_errors = false;
  };
  void begin(int64_t num_micro_batches, Kind kind);
  void work_done(PipelineWork::Kind kind);
  // Enqueues a copy of the current step's norm and loss to the host, for who needs them before
  // end().
  struct NormAndLoss {
    float norm = 0, loss = 0;
  };
  void copy_norm_and_loss();
  // Returns them once the compute stream has come so far.
  NormAndLoss norm_and_loss() const;
  // The step is enqueued: its numbers are copied to the host after it.
  void end(const StepOutcome& outcome = {});

  // Returns the event after which take() may be called. Throws std::logic_error where none is
  // unread.
  EventId oldest_is_here() const;
  // Returns the oldest unread result.
  StepResult take();

 private:
  // The events of one step and the place of its numbers.
  struct Slot {
    float* host = nullptr;
    EventId begin = 0, end = 0, copied = 0;
    std::vector<PipelineWork::Kind> work;
    std::vector<EventId> work_done;  // of each, and more that are kept for other steps
    int64_t num_micro_batches = 0;
    Kind kind;
    StepOutcome outcome;
  };
  Slot& slot_of(int64_t result) { return slots_[static_cast<size_t>(result % kInFlight)]; }
  const Slot& slot_of(int64_t result) const {
    return slots_[static_cast<size_t>(result % kInFlight)];
  }
  Slot& current() { return slot_of(num_begun_ - 1); }
  const Slot& current() const { return slot_of(num_begun_ - 1); }
  // The number of samples of a step that each rank computes.
  int64_t samples_per_rank(const Slot& slot) const {
    return slot.num_micro_batches * samples_.micro_batch_size;
  }
  std::vector<float> sample_losses_of(const Slot& slot) const;
  std::vector<float> fp8_errors_of(const Slot& slot) const;
  // Losses of samples come after the numbers of every step.
  int64_t first_sample_loss() const;

  Backend& backend_;
  const SharedSamples samples_;
  const int64_t num_fp8_layers_;
  Tensor device_;  // (first_sample_loss() + samples_.most): see kLoss, ... in step_results.cpp
  Tensor host_;    // pinned, kInFlight times the same
  std::vector<Slot> slots_;
  // The end of result n is event n modulo their number. That of the result before the oldest unread
  // one is still needed.
  std::vector<EventId> end_events_;
  int64_t num_begun_ = 0, num_taken_ = 0;
};

}  // namespace weft
