// What a run says before it starts, in Megatron's order. [Megatron-LM
// megatron/training/{arguments,initialize,tokenizer}.py]
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/data/batch_schedule.h"
#include "trainer/data/vocabulary_size.h"

namespace weft {

// World, precision, arguments, warnings and notes, batch schedule, vocabulary and its padding,
// seed.
std::string start_banner(const Config& config, const std::vector<std::string>& notes,
                         const BatchSchedule& schedule, const VocabularySize& vocabulary);

}  // namespace weft
