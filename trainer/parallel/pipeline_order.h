// The order in which a pipeline stage works on the micro-batches of a global batch.
//
//   stage 0   F0 F1 F2 B0 F3 B1 B2 B3         3 stages, 4 micro-batches, without the time
//   stage 1   F0 F1 B0 F2 B1 F3 B2 B3         that stages wait for each other
//   stage 2   F0 B0 F1 B1 F2 B2 F3 B3
//
// It is 1F1B: a stage begins with as many forwards as there are stages after it, then does a forward
// and a backward in turn, and ends with the backwards that are left. So stage r keeps the activations
// of at most p - r micro-batches. [Narayanan et al. 2019, PipeDream-Flush in arXiv:2006.09503;
// Megatron-LM megatron/core/pipeline_parallel/schedules.py]
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

struct PipelineWork {
  enum class Kind { kForward, kBackward, kExchange };
  Kind kind = Kind::kForward;
  int64_t micro_batch = -1;  // forward and backward: the one that they work on
  // exchange: the micro-batches whose tensors move, all at once; -1 where none does. The input comes
  // from the stage before and its gradient goes there; the output goes to the stage after and its
  // gradient comes from there.
  int64_t receives_input = -1, sends_output = -1, receives_gradient = -1, sends_gradient = -1;
};

// Returns the work of a global batch. Each exchange may block until the other side comes to it: the
// orders of all stages fit together. Alone, a stage exchanges nothing.
std::vector<PipelineWork> pipeline_order(int stage, int num_stages, int64_t num_micro_batches);

// Returns the same of an evaluation, which has no backward.
std::vector<PipelineWork> pipeline_order_of_evaluation(int stage, int num_stages,
                                                       int64_t num_micro_batches);

// Returns the number of micro-batches whose activations a stage keeps at once: min(m, p - r). The
// activations of micro-batch i may lie in the place of those of i - pipeline_slots().
int64_t pipeline_slots(int stage, int num_stages, int64_t num_micro_batches);

}  // namespace weft
