// What a checkpoint knows of its run beside the tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trainer/step/training_state.h"

namespace weft {

// Everything of a run that is not a tensor.
struct CheckpointInfo {
  ScalarState scalars;
  int64_t consumed_valid_samples = 0;
  int64_t skipped_iterations = 0;
  // Learning-rate schedule of the run, in samples; compared on load [Megatron-LM
  // optimizer_param_scheduler.py].
  double max_lr = 0, min_lr = 0;
  double lr_warmup_samples = 0;  // a fraction of the decay need not be whole
  int64_t lr_decay_samples = 0;
  std::string lr_decay_style;
  // What must be equal in the run that loads it: "num_layers" -> "12", ...
  std::map<std::string, std::string> architecture;
  // Filled by reading: false for weights alone (imported models); the optimizer then starts afresh.
  bool has_optimizer = true;
  // All arguments of the run, a JSON object, for people.
  std::string arguments_json = "{}";
};

}  // namespace weft
