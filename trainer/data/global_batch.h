// One rank's share of a global batch, as the data loader hands it to the training step.
#pragma once

#include <cstdint>

namespace weft {

// The micro-batches follow each other in host memory, B samples of T tokens each. Pinned memory
// makes the copies to the device asynchronous. The memory must stay unchanged until the result of
// its step has been read.
struct GlobalBatch {
  int64_t num_micro_batches = 0;
  int64_t seq_length = 0;  // T, or 0: that of the model
  // Tokens of all ranks together by which the run's consumed tokens grow. Those that rows of a
  // reshaping curriculum repeat do not count.
  int64_t num_new_tokens = 0;
  double num_loss_tokens = 0;        // of this rank: the sum of its mask, or 0 without one
  const int32_t* tokens = nullptr;   // (num_micro_batches, B, T)
  const int32_t* targets = nullptr;  // (num_micro_batches, B, T)
  const float* loss_mask = nullptr;  // (num_micro_batches, B, T), or null: all ones
  // (num_micro_batches) sums of the mask, all > 0; null exactly when loss_mask is.
  const double* mask_sums = nullptr;
  // (num_micro_batches, B, T, 2), or null: the documents of the tokens (data/document_bounds.h)
  const int32_t* document_bounds = nullptr;
};

}  // namespace weft
