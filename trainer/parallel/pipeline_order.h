// The order in which a pipeline stage works on the micro-batches of a global batch.
//
// With 3 stages, F2 is the forward of micro-batch 2 and B2 its backward. The times at which stages
// wait for each other are left out:
//
//   stage 0   F0 F1 F2 B0 F3 B1 B2 B3
//   stage 1   F0 F1 B0 F2 B1 F3 B2 B3
//   stage 2   F0 B0 F1 B1 F2 B2 F3 B3
//
// It is 1F1B: a stage begins with as many forwards as there are stages after it, then does a
// forward and a backward in turn, and ends with the backwards that are left. So stage r of p keeps
// the activations of at most p - r micro-batches. [Narayanan et al. 2019, PipeDream-Flush in
// arXiv:2006.09503; Megatron-LM megatron/core/pipeline_parallel/schedules.py]
//
// Interleaved, each stage has v chunks of the model's layers, and a micro-batch passes all stages v
// times. Micro-batches go in groups of p or more: a group passes chunk 0, then chunk 1, and so on.
// With 2 stages of 2 chunks, F and B are works of chunk 0, f and b those of chunk 1:
//
//   stage 0   F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3
//   stage 1   F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3
//
// A stage is idle for p - 1 chunks' work instead of p - 1 stages', and keeps the activations of
// more chunks. [Narayanan et al. 2021, arXiv:2104.04473, section 2.2.2]
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// The sizes that decide over the order of the work.
struct PipelineShape {
  int pp_size = 1;         // p, the stages that work at the same time
  int64_t num_chunks = 1;  // v
  // N, the number of micro-batches that pass a chunk together where stages are interleaved; p or
  // more.
  int64_t group_size = 1;
};

// A micro-batch in one of the chunks of a stage, and where its tensors lie.
struct PipelineItem {
  int64_t micro_batch = -1;   // -1: there is none
  int64_t chunk = 0;          // of this stage
  int64_t slot = 0;           // of its activations, from its input's arrival to the end of backward
  int64_t gradient_slot = 0;  // of its output's gradient, from its arrival to the end of backward
  // The slot of its tokens and of its embedding's activations, from forward to the end of backward.
  // Only the first chunk of the first stage has one.
  int64_t embedding_slot = 0;
  bool is_there() const { return micro_batch >= 0; }
};

struct PipelineWork {
  enum class Kind { kForward, kBackward, kExchange };
  Kind kind = Kind::kForward;
  PipelineItem item = {};  // the item that a forward or a backward works on
  // An exchange moves the tensors of these items all at once. The input comes from the stage before
  // and its gradient goes there; the output goes to the stage after and its gradient comes from
  // there. The stages are a ring: a chunk of the first one begins where a chunk of the last one
  // ends.
  PipelineItem receives_input = {}, sends_output = {}, receives_gradient = {}, sends_gradient = {};
};

// Returns the work of a global batch. Each exchange may block until the other side comes to it: the
// orders of all stages fit together. Alone, a stage exchanges nothing. Interleaved, a last group of
// fewer micro-batches than stages makes them wait.
std::vector<PipelineWork> pipeline_order(int stage, const PipelineShape& shape,
                                         int64_t num_micro_batches);

// Returns the same of an evaluation, which has no backward: a slot is free after forward.
std::vector<PipelineWork> pipeline_order_of_evaluation(int stage, const PipelineShape& shape,
                                                       int64_t num_micro_batches);

// Returns the number of slots that the orders of so many micro-batches or fewer use at most. With
// one chunk it is min(m, p - r). Interleaved, it is in units of a chunk; with groups of p it is
// (v - 1) p + 2 (p - r) - 1 for many micro-batches: 1 + (p - 1) / (p v) times a whole stage for
// each of p micro-batches on the first stage.
int64_t pipeline_slots(int stage, const PipelineShape& shape, int64_t num_micro_batches);

// The same for embedding slots: with one chunk as many as slots. Interleaved, they are those of two
// groups, because a group ends in the first chunk when the next one has passed it.
int64_t pipeline_embedding_slots(int stage, const PipelineShape& shape, int64_t num_micro_batches);

// The same for gradient slots. With one chunk there are none: the gradient of an output arrives
// when that of the input before has left, in the same memory.
int64_t pipeline_gradient_slots(int stage, const PipelineShape& shape);

}  // namespace weft
