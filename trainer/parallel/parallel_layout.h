// The place of this process among all ranks of a run.
#pragma once

namespace weft {

// Ranks are numbered in the order tp-dp-pp: rank = tp + TP * (dp + DP * pp)
// [Megatron-LM parallel_state.py, default order].
struct ParallelLayout {
  int tp_rank = 0, tp_size = 1;
  int pp_rank = 0, pp_size = 1;
  int dp_rank = 0, dp_size = 1;
  int world_rank() const { return tp_rank + tp_size * (dp_rank + dp_size * pp_rank); }
  int world_size() const { return tp_size * pp_size * dp_size; }
};

}  // namespace weft
