// The memory of the device in which a rank's micro-batches arrive: tokens, targets, loss mask and
// the bounds of documents, each only on the stages that need it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/data/global_batch.h"
#include "trainer/model/model.h"
#include "trainer/parallel/pipeline_order.h"

namespace weft {

class BatchBuffers {
 public:
  // Plans the buffers; they are there after plan.allocate().
  BatchBuffers(Backend& backend, const ModelShape& shape, const Model& model,
               int64_t num_embedding_slots, bool has_loss_mask, MemoryPlan& plan);
  BatchBuffers(const BatchBuffers&) = delete;
  BatchBuffers& operator=(const BatchBuffers&) = delete;

  // The batch is the next one. Shorter sequences lie at the beginnings of the buffers. Throws
  // std::logic_error where it lacks what the model needs, or has what was not planned.
  void begin(const GlobalBatch& batch);
  // Enqueues the copies of a micro-batch on the compute stream: half a megabyte takes microseconds,
  // and by stream order the buffers are free again.
  void copy_to_device(const GlobalBatch& batch, const PipelineItem& item, const Chunk& chunk);
  // Returns a micro-batch with its tensors and slots.
  MicroBatch micro_batch(const GlobalBatch& batch, const PipelineItem& item,
                         const Chunk& chunk) const;
  // Returns the tokens of a micro-batch, on the stage with the head.
  int64_t num_targets() const { return targets_.num_elements(); }

 private:
  Backend& backend_;
  const int64_t micro_batch_size_, longest_;
  const bool has_head_;
  std::vector<Tensor> tokens_;           // by embedding slot; of the stage with the embedding
  std::vector<Tensor> document_bounds_;  // by slot; of every stage
  Tensor targets_, loss_mask_;  // of the stage with the head, which has one micro-batch at a time
};

}  // namespace weft
