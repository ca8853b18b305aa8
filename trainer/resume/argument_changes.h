// Compares the arguments of a run that goes on with those of its checkpoint.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/command_line/options.h"

namespace weft {

// Returns what a change does to the rest of the run: the end of a warning.
const char* words_of(ChangeEffect effect);

// Returns a warning for each argument that the run has changed and whose effect is to be announced.
std::vector<std::string> argument_differences(const CheckpointInfo& checkpoint,
                                              const Config& config);

// Throws UsageError where this run has another optimizer than the one whose state the checkpoint
// holds.
void check_optimizer_is_the_same(const CheckpointInfo& checkpoint, const Config& config);
// Throws UsageError where the consumed samples and tokens do not tell with which one the
// changed run goes on: a curriculum that reshapes and one that does not, or other batch sizes of a
// curriculum by difficulty.
void check_place_is_known(const CheckpointInfo& checkpoint, const Config& config);

}  // namespace weft
