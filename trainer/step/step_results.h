// The results of steps: numbers and times that the device makes and the host reads later, while the
// next step already runs.
//
//   results.begin(num_micro_batches, {.training = true});
//   ... enqueue the step; forward_done(i), backward_done(i) after each micro-batch ...
//   results.end();
//   backend.synchronize(results.oldest_is_here());
//   const StepResult result = results.take();
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"

namespace weft {

struct StepResult {
  double loss = 0;         // mean over all ranks' micro-batches of sum(loss * mask) / sum(mask)
  double grad_norm = 0;    // before clipping; 0 after evaluate()
  double params_norm = 0;  // after the update; 0 unless StepOptions asks for it
  float forward_ms = 0, backward_ms = 0, optimizer_ms = 0;  // time on the device
  double device_ms = 0;  // from the beginning of the step to its end, on the device
  // From the end of the step or evaluation before to the end of this one, on the device. The first
  // one has none: device_ms then.
  double since_previous_ms = 0;
};

class StepResults {
 public:
  static constexpr int kInFlight = 2;

  explicit StepResults(Backend& backend) : backend_(backend) {}

  void plan(MemoryPlan& plan);
  // Call it after plan.allocate().
  void bind();

  // The places on the device that a step writes, (1) fp32 each; the norm and the clip factor are a
  // pair (2).
  Tensor loss() const;
  Tensor norm_and_clip() const;
  Tensor params_sum_of_squares() const;

  // A step begins on the compute stream. Throws std::logic_error where kInFlight are unread.
  struct Kind {
    bool training = false, params_norm = false;
  };
  void begin(int64_t num_micro_batches, Kind kind);
  void forward_done(int64_t micro_batch_idx);
  void backward_done(int64_t micro_batch_idx);
  // The step is enqueued: its numbers are copied to the host after it.
  void end();

  // Returns the event after which take() may be called. Throws std::logic_error where none is unread.
  EventId oldest_is_here() const;
  // Returns the oldest unread result.
  StepResult take();

 private:
  // The events of one step and the place of its numbers.
  struct Slot {
    float* host = nullptr;
    EventId begin = 0, end = 0, copied = 0;
    std::vector<EventId> forward_done, backward_done;  // per micro-batch
    int64_t num_micro_batches = 0;
    Kind kind;
  };
  Slot& slot_of(int64_t result) { return slots_[static_cast<size_t>(result % kInFlight)]; }
  const Slot& slot_of(int64_t result) const {
    return slots_[static_cast<size_t>(result % kInFlight)];
  }
  Slot& current() { return slot_of(num_begun_ - 1); }

  Backend& backend_;
  Tensor device_;  // (kNumNumbers): see kLoss, ... in step_results.cpp
  Tensor host_;    // pinned, kInFlight times the same
  std::vector<Slot> slots_;
  // The end of result n is event n modulo their number. That of the result before the oldest unread
  // one is still needed.
  std::vector<EventId> end_events_;
  int64_t num_begun_ = 0, num_taken_ = 0;
};

}  // namespace weft
