#include "trainer/step/step_results.h"

#include <cmath>
#include <stdexcept>
#include <string>

namespace weft {
namespace {

// The numbers of a step, which the host reads in one copy together with the errors of fp8 products
// and the losses of samples that follow them.
constexpr int64_t kNorm = 0, kClip = 1, kLoss = 2, kParamsSumOfSquares = 3, kNumNumbers = 4;
constexpr int64_t kProductsOfLayer = 4;  // qkv, proj, fc1, fc2
static_assert(kClip == kNorm + 1, "clip_coefficient writes the pair");
static_assert(kLoss == kClip + 1, "copy_norm_and_loss() copies one range");

Tensor element(Tensor tensor, int64_t idx, int64_t count = 1) {
  return Tensor(tensor.as<float>() + idx, DType::kFloat32, {count});
}

}  // namespace

void StepResults::plan(MemoryPlan& plan) {
  plan.add(MemoryClass::kBatch, "results", &device_, DType::kFloat32,
           {first_sample_loss() + samples_.most});
  plan.add(MemoryClass::kPinnedHost, "results on the host", &host_, DType::kFloat32,
           {kInFlight, device_.num_elements()});
}

void StepResults::bind() {
  slots_.resize(kInFlight);
  for (int i = 0; i < kInFlight; ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    slot.host = host_.as<float>() + i * device_.num_elements();
    slot.begin = backend_.create_timed_event();
    slot.copied = backend_.create_event();
  }
  for (int i = 0; i <= kInFlight; ++i) end_events_.push_back(backend_.create_timed_event());
}

Tensor StepResults::loss() const { return element(device_, kLoss); }
Tensor StepResults::norm_and_clip() const { return element(device_, kNorm, 2); }
Tensor StepResults::params_sum_of_squares() const { return element(device_, kParamsSumOfSquares); }

Tensor StepResults::fp8_errors() const {
  if (!current().kind.fp8_errors) return {};
  return {
      device_.as<float>() + kNumNumbers, DType::kFloat32, {num_fp8_layers_, kProductsOfLayer, 2}};
}

int64_t StepResults::first_sample_loss() const {
  return kNumNumbers + num_fp8_layers_ * kProductsOfLayer * 2;
}

Tensor StepResults::losses_of_micro_batch(int64_t micro_batch_idx) const {
  const int64_t B = samples_.micro_batch_size;
  return element(losses_of_rank(), micro_batch_idx * B, B);
}
Tensor StepResults::losses_of_rank() const {
  const int64_t own = samples_per_rank(current());
  return element(losses_of_all_ranks(), samples_.dp_rank * own, own);
}
Tensor StepResults::losses_of_all_ranks() const {
  return element(device_, first_sample_loss(), samples_.dp_size * samples_per_rank(current()));
}

void StepResults::begin(int64_t num_micro_batches, Kind kind) {
  if (num_begun_ - num_taken_ >= kInFlight) {
    throw std::logic_error("trainer: " + std::to_string(kInFlight) +
                           " results are unread; call result() first");
  }
  Slot& slot = slot_of(num_begun_);
  slot.end = end_events_[static_cast<size_t>(num_begun_) % end_events_.size()];
  ++num_begun_;
  slot.num_micro_batches = num_micro_batches;
  slot.kind = kind;
  const bool has_place_for_samples =
      !keeps_samples() || samples_.dp_size * samples_per_rank(slot) <= samples_.most;
  if (num_micro_batches < 1 || !has_place_for_samples || (kind.fp8_errors && num_fp8_layers_ == 0))
    throw std::logic_error("trainer: a step has more results than were planned, or none");
  slot.work.clear();
  backend_.record(slot.begin, Stream::kCompute);
  if (kind.fp8_errors) backend_.run(Zero{.out = fp8_errors()});
}

void StepResults::work_done(PipelineWork::Kind kind) {
  Slot& slot = current();
  if (slot.work.size() == slot.work_done.size())
    slot.work_done.push_back(backend_.create_timed_event());
  backend_.record(slot.work_done[slot.work.size()], Stream::kCompute);
  slot.work.push_back(kind);
}

void StepResults::copy_norm_and_loss() {
  const Tensor numbers = element(device_, kNorm, 3);
  backend_.copy(current().host + kNorm, numbers.data(), numbers.num_bytes(), Stream::kCompute);
}

StepResults::NormAndLoss StepResults::norm_and_loss() const {
  return {current().host[kNorm], current().host[kLoss]};
}

void StepResults::end(const StepOutcome& outcome) {
  Slot& slot = current();
  slot.outcome = outcome;
  backend_.record(slot.end, Stream::kCompute);
  const int64_t num_samples = keeps_samples() ? losses_of_all_ranks().num_elements() : 0;
  backend_.copy(slot.host, device_.data(),
                (first_sample_loss() + num_samples) * static_cast<int64_t>(sizeof(float)),
                Stream::kCompute);
  backend_.record(slot.copied, Stream::kCompute);
}

EventId StepResults::oldest_is_here() const {
  if (num_taken_ == num_begun_) {
    throw std::logic_error("trainer: result() without an unread step() or evaluate()");
  }
  return slot_of(num_taken_).copied;
}

// On the device they lie rank by rank; in the order of samples each micro-batch has those of all
// ranks.
std::vector<float> StepResults::sample_losses_of(const Slot& slot) const {
  if (!slot.kind.training || samples_.most == 0) return {};
  const int64_t B = samples_.micro_batch_size, per_rank = samples_per_rank(slot);
  std::vector<float> in_order;
  in_order.reserve(static_cast<size_t>(samples_.dp_size * per_rank));
  for (int64_t first = 0; first < per_rank; first += B) {
    for (int64_t rank = 0; rank < samples_.dp_size; ++rank) {
      const float* losses = slot.host + first_sample_loss() + rank * per_rank + first;
      in_order.insert(in_order.end(), losses, losses + B);
    }
  }
  return in_order;
}

std::vector<float> StepResults::fp8_errors_of(const Slot& slot) const {
  if (!slot.kind.fp8_errors) return {};
  std::vector<float> errors;
  for (int64_t i = 0; i < num_fp8_layers_ * kProductsOfLayer; ++i) {
    const float* sums = slot.host + kNumNumbers + 2 * i;
    errors.push_back(std::sqrt(sums[0] / sums[1]));
  }
  return errors;
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
  result.outcome = slot.outcome;
  result.sample_losses = sample_losses_of(slot);
  result.fp8_errors = fp8_errors_of(slot);
  if (slot.kind.training) result.grad_norm = slot.host[kNorm];
  if (slot.kind.params_norm) result.params_norm = std::sqrt(slot.host[kParamsSumOfSquares]);
  EventId previous = slot.begin;
  for (size_t i = 0; i < slot.work.size(); ++i) {
    const float ms = backend_.elapsed_ms(previous, slot.work_done[i]);
    switch (slot.work[i]) {
      case PipelineWork::Kind::kForward:
        result.forward_ms += ms;
        break;
      case PipelineWork::Kind::kBackward:
        result.backward_ms += ms;
        break;
      case PipelineWork::Kind::kExchange:
        result.exchange_ms += ms;
        break;
    }
    previous = slot.work_done[i];
  }
  result.optimizer_ms = backend_.elapsed_ms(previous, slot.end);
  return result;
}

}  // namespace weft
