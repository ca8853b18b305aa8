// Losses of the validation and test sets of a run.
#pragma once

#include <optional>

#include "trainer/loop/run.h"

namespace weft {

class Evaluation {
 public:
  explicit Evaluation(Run& run) : run_(run) {}

  // Both log the loss of each group, and return false if a signal cut them short; the position in
  // the validation set then stays where it was.
  bool validate(bool at_end);
  bool test();
  // All ranks call it, and get the sum over the data-parallel ones, at least 1.
  double sum_over_data_ranks(double own) const;

 private:
  std::optional<double> mean_loss(DataLoader& loader, bool full);

  Run& run_;
};

// Returns the samples that a validation takes of the first set.
int64_t samples_per_validation(const Config& config, const TrainingDatasets& datasets);

// Returns whether the checkpoint of this run was saved on a signal in place of the evaluation that
// was due. That evaluation is made up for, so that later ones use the samples that an undisturbed
// run uses. All ranks call it.
bool evaluation_was_cut_short(const RunStart& start, const RunModel& model,
                              const TrainingDatasets& datasets);

}  // namespace weft
