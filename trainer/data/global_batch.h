// One rank's share of a global batch, as the data loader hands it to the training step.
#pragma once

#include <cstdint>

namespace weft {

// This rank's share of one global batch on the host: micro-batch after micro-batch, B samples of T
// tokens each. Pinned memory makes the copies asynchronous. The memory must stay as it is until the
// result of its step was read.
struct GlobalBatch {
  int64_t num_micro_batches = 0;
  const int32_t* tokens = nullptr;   // (num_micro_batches, B, T)
  const int32_t* targets = nullptr;  // (num_micro_batches, B, T)
  const float* loss_mask = nullptr;  // (num_micro_batches, B, T), or null: all ones
  const double* mask_sums =
      nullptr;  // (num_micro_batches) sums of the mask, > 0; null exactly when loss_mask is
};

}  // namespace weft
