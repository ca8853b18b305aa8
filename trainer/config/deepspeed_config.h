// Reads DeepSpeed's JSON file (--deepspeed_config) into the options of a run: train_batch_size,
// train_micro_batch_size_per_gpu, gradient_clipping, bf16, zero_optimization.stage and
// curriculum_learning. [DeepSpeed runtime/config.py, docs/_pages/config-json.md]
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Sets the options that config.deepspeed_config names; without a file it does nothing. `is_given` tells
// whether the command line has a flag: where both have a value, they must be equal. What cannot be
// read, contradicts or is not known is added to `problems`, and what has no effect to `notes`.
void apply_deepspeed_config(Config& config,
                            const std::function<bool(const std::string& flag)>& is_given,
                            std::vector<std::string>& problems, std::vector<std::string>& notes);

}  // namespace weft
