// The state that a training step changes and a checkpoint stores: tensors on the device and
// counters on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/numbers/tensor.h"

namespace weft {

// A piece of a global tensor: its name and place for a checkpoint, and its memory on the device.
// The slice of a tensor-parallel rank is [begin, end) of split_dim; of the slice's elements in
// row-major order the piece is [first, first + tensor.num_elements()). With a sharded optimizer a
// data-parallel rank holds pieces; else a piece is the whole slice. Padding is no part of it.
struct StateTensor {
  // "model/NAME" (x); "optimizer/master/NAME" (fp32, of bf16 and fp16 models);
  // "optimizer/exp_avg/NAME" and "optimizer/exp_avg_sq/NAME" (fp32, or bf16 with
  // --bf16-optimizer-state), or "optimizer/momentum_buffer/NAME" of Muon's matrices;
  // "fp8/decoder.layers.N.forward" and ".gradients" (fp32), the states of delayed scaling.
  std::string name;
  std::vector<int64_t> global_shape;
  int split_dim = -1;
  int64_t begin = 0, end = 0;
  Tensor tensor;  // device memory, or pinned host memory (--optimizer-offload); flat
  int64_t first = 0;
};

// The dynamic factor of fp16 training's loss (loss_scale.h), with Megatron's names for what it
// counts.
struct LossScaleState {
  double scale = 0;
  int64_t growth_tracker = 0;  // steps without an overflow, since the last one or the last growth
  int64_t hysteresis_tracker = 0;  // overflows until the factor falls; negative where it has fallen
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

// What the histories of delayed fp8 scaling are (they themselves are the checkpoint's tensors
// "fp8/..."): how many steps they have seen, their length, and whether gradients are e5m2 (hybrid)
// or e4m3, for which their scales were made.
struct Fp8ScalingState {
  int64_t steps = 0, amax_history_len = 1;
  bool is_hybrid = true;
  friend bool operator==(const Fp8ScalingState&, const Fp8ScalingState&) = default;
};

// The counters beside the tensors. Data position and dropout follow from them.
struct ScalarState {
  int64_t iteration = 0;  // finished steps, skipped ones too; it keys dropout of the next one
  int64_t consumed_samples = 0;  // all data-parallel ranks together
  int64_t adam_step = 0;         // finished updates, for the bias correction
  int64_t consumed_tokens = 0;   // all data-parallel ranks together
  int64_t skipped_steps = 0;     // of the finished ones: their update was left out
  int64_t bad_steps_in_row = 0;  // the last ones, which --skip-bad-steps has tolerated
  std::optional<LossScaleState> loss_scale = {};    // where it is dynamic
  std::optional<Fp8ScalingState> fp8_scaling = {};  // where it is delayed
};

}  // namespace weft
