// Compares the arguments of a run that goes on with those of its checkpoint.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"
#include "trainer/config/config.h"

namespace weft {

// An argument that a resumed run may change, and what that does, which the log then tells: those
// that decide samples (indexed_dataset/order/blends/sample_arguments.h), and others that change
// numbers. An argument that is not listed is compared by a check of its own, or changes no number
// that a run computes.
enum class ChangeEffect {
  kMovesSamples,
  kMovesEvaluations,
  kGoesOn,
  kBegins,
  kBeginsHistories,
  kConvertsMoments
};
struct AnnouncedArgument {
  std::string name;  // as in manifests
  ChangeEffect effect;
  // Says which datasets are read, in which shares: compare_blends() tells it where the checkpoint
  // has blends.
  bool is_of_blends = false;
};
std::vector<AnnouncedArgument> announced_arguments();

// Returns what a change does to the rest of the run: the end of a warning.
const char* words_of(ChangeEffect effect);

// Returns a warning for each announced argument that the run has changed.
std::vector<std::string> argument_differences(const CheckpointInfo& checkpoint,
                                              const Config& config);

// Throws std::invalid_argument where the consumed samples and tokens do not tell with which one the
// changed run goes on: a curriculum that reshapes and one that does not, or other batch sizes of a
// curriculum by difficulty.
void check_place_is_known(const CheckpointInfo& checkpoint, const Config& config);

}  // namespace weft
