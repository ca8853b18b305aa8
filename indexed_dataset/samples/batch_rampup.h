// The batch sizes of a run whose batches grow at its beginning.
// [Megatron-LM core/num_microbatches_calculator.py]
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft {

class BatchRampup {
 public:
  // `rampup` holds START INCREMENT SAMPLES of --rampup-batch-size. Where it is empty, or holds what
  // makes no ramp (weft-train refuses such values), all batches have `full` samples.
  BatchRampup(int64_t full, const std::vector<int64_t>& rampup);

  bool ramps_up() const { return increment_ > 0; }
  // True while the batch that starts after `consumed` samples may be smaller than a full one.
  bool is_ramping(int64_t consumed) const { return ramps_up() && consumed <= samples_; }
  // Returns the size of the batch that starts after `consumed` samples.
  int64_t batch_size(int64_t consumed) const;
  // Returns the samples that are consumed `iterations` after `consumed` were; nothing if the number
  // does not fit 64 bits. Takes time for each iteration of the ramp.
  std::optional<int64_t> consumed_after(int64_t iterations, int64_t consumed = 0) const;

 private:
  int64_t full_ = 0, start_ = 0, increment_ = 0, samples_ = 0;
  double samples_per_increment_ = 0;
};

}  // namespace weft
