#include "indexed_dataset/samples/batch_rampup.h"

namespace weft {

BatchRampup::BatchRampup(int64_t full, const std::vector<int64_t>& rampup) : full_(full) {
  if (rampup.size() != 3 || rampup[0] < 1 || rampup[0] > full || rampup[1] < 1) return;
  start_ = rampup[0];
  increment_ = rampup[1];
  samples_ = rampup[2];
  const int64_t num_increments = (full_ - start_) / increment_;
  samples_per_increment_ = static_cast<double>(samples_) / static_cast<double>(num_increments);
}

int64_t BatchRampup::batch_size(int64_t consumed) const {
  if (!is_ramping(consumed) || samples_ == 0) return full_;
  const auto steps = static_cast<int64_t>(static_cast<double>(consumed) / samples_per_increment_);
  return start_ + steps * increment_;
}

std::optional<int64_t> BatchRampup::consumed_after(int64_t iterations, int64_t consumed) const {
  for (; iterations > 0 && is_ramping(consumed); --iterations) {
    if (__builtin_add_overflow(consumed, batch_size(consumed), &consumed)) return std::nullopt;
  }
  int64_t rest = 0;
  if (__builtin_mul_overflow(iterations, full_, &rest) ||
      __builtin_add_overflow(consumed, rest, &consumed))
    return std::nullopt;
  return consumed;
}

}  // namespace weft
