// Reads DeepSpeed's JSON file (--deepspeed_config) into the options of a run: train_batch_size,
// train_micro_batch_size_per_gpu, gradient_clipping, bf16, fp16, zero_optimization.stage,
// curriculum_learning, and of data_efficiency the sampling by difficulty.
// [DeepSpeed runtime/config.py, docs/_pages/config-json.md]
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Sets the options that config.deepspeed_config names; without a file it does nothing. `is_given`
// tells whether the command line has a flag: where both have a value, they must be equal. What
// cannot be read, contradicts or is not known is added to `problems`, and what has no effect to
// `notes`.
void apply_deepspeed_config(Config& config,
                            const std::function<bool(const std::string& flag)>& is_given,
                            std::vector<std::string>& problems, std::vector<std::string>& notes);

// Reads the file that --curriculum-metrics names, unless it is the JSON text itself: the run's
// manifest keeps the text. One that cannot be read is a problem, and is cleared.
void load_curriculum_metrics(Config& config, std::vector<std::string>& problems);

}  // namespace weft
