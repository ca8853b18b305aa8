#include "trainer/step/step_results.h"

#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

// The numbers of a step, which the host reads in one copy.
constexpr int64_t kNorm = 0, kClip = 1, kLoss = 2, kParamsSumOfSquares = 3, kNumNumbers = 4;
static_assert(kClip == kNorm + 1, "clip_coefficient writes the pair");

Tensor element(Tensor tensor, int64_t idx, int64_t count = 1) {
  return Tensor(tensor.as<float>() + idx, DType::kFloat32, {count});
}

}  // namespace

void StepResults::plan(MemoryPlan& plan) {
  plan.add(MemoryClass::kBatch, "results", &device_, DType::kFloat32, {kNumNumbers});
  plan.add(MemoryClass::kPinnedHost, "results on the host", &host_, DType::kFloat32,
           {kInFlight, kNumNumbers});
}

void StepResults::bind() {
  slots_.resize(kInFlight);
  for (int i = 0; i < kInFlight; ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    slot.host = host_.as<float>() + i * kNumNumbers;
    slot.begin = backend_.create_event();
    slot.copied = backend_.create_event();
  }
  for (int i = 0; i <= kInFlight; ++i) end_events_.push_back(backend_.create_event());
}

Tensor StepResults::loss() const { return element(device_, kLoss); }
Tensor StepResults::norm_and_clip() const { return element(device_, kNorm, 2); }
Tensor StepResults::params_sum_of_squares() const { return element(device_, kParamsSumOfSquares); }

void StepResults::begin(int64_t num_micro_batches, Kind kind) {
  assert(num_micro_batches > 0);
  if (num_begun_ - num_taken_ >= kInFlight) {
    throw std::logic_error("trainer: " + std::to_string(kInFlight) +
                           " results are unread; call result() first");
  }
  Slot& slot = slot_of(num_begun_);
  slot.end = end_events_[static_cast<size_t>(num_begun_) % end_events_.size()];
  ++num_begun_;
  slot.num_micro_batches = num_micro_batches;
  slot.kind = kind;
  while (static_cast<int64_t>(slot.forward_done.size()) < num_micro_batches) {
    slot.forward_done.push_back(backend_.create_event());
    slot.backward_done.push_back(backend_.create_event());
  }
  backend_.record(slot.begin, Stream::kCompute);
}

void StepResults::forward_done(int64_t micro_batch_idx) {
  backend_.record(current().forward_done[static_cast<size_t>(micro_batch_idx)], Stream::kCompute);
}

void StepResults::backward_done(int64_t micro_batch_idx) {
  backend_.record(current().backward_done[static_cast<size_t>(micro_batch_idx)], Stream::kCompute);
}

void StepResults::end() {
  const Slot& slot = current();
  backend_.record(slot.end, Stream::kCompute);
  backend_.copy(slot.host, device_.data(), device_.num_bytes(), Stream::kCompute);
  backend_.record(slot.copied, Stream::kCompute);
}

EventId StepResults::oldest_is_here() const {
  if (num_taken_ == num_begun_) {
    throw std::logic_error("trainer: result() without an unread step() or evaluate()");
  }
  return slot_of(num_taken_).copied;
}

StepResult StepResults::take() {
  const int64_t idx = num_taken_++;
  const Slot& slot = slot_of(idx);
  StepResult result;
  result.device_ms = result.since_previous_ms = backend_.elapsed_ms(slot.begin, slot.end);
  if (idx > 0) {
    const EventId previous_end = end_events_[static_cast<size_t>(idx - 1) % end_events_.size()];
    result.since_previous_ms = backend_.elapsed_ms(previous_end, slot.end);
  }
  result.loss = slot.host[kLoss];
  if (slot.kind.training) result.grad_norm = slot.host[kNorm];
  if (slot.kind.params_norm) result.params_norm = std::sqrt(slot.host[kParamsSumOfSquares]);
  EventId previous = slot.begin;
  for (size_t i = 0; i < static_cast<size_t>(slot.num_micro_batches); ++i) {
    result.forward_ms += backend_.elapsed_ms(previous, slot.forward_done[i]);
    result.backward_ms += backend_.elapsed_ms(slot.forward_done[i], slot.backward_done[i]);
    previous = slot.backward_done[i];
  }
  result.optimizer_ms = backend_.elapsed_ms(previous, slot.end);
  return result;
}

}  // namespace weft
