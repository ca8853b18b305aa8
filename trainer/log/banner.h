// The text that a run prints before it starts, in Megatron's order.
// [Megatron-LM megatron/training/{arguments,initialize,tokenizer}.py]
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/identity/run_vocabulary.h"

namespace weft {

// The banner shows the world, the precision, all arguments, warnings and notes, the batch schedule,
// the vocabulary with its padding, and the seed. Without `with_arguments` it has those that are not
// the defaults, a line each.
std::string start_banner(const Config& config, const std::vector<std::string>& notes,
                         const BatchSchedule& schedule, const RunVocabulary& vocabulary,
                         bool with_arguments = true);

}  // namespace weft
