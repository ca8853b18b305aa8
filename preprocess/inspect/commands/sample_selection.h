// The options that say which samples of a run are meant: iterations, consumed samples, or lines of
// its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/inspect/commands/run_options.h"
#include "preprocess/inspect/foreign_runs/log_line.h"
#include "preprocess/inspect/lookup/run_readings.h"

namespace weft {

struct SampleSelection {
  SplitOptions split;

  void declare(OptionSet& options);
  void validate(OptionSet& options) const;
  // True if the run's batch size must be known.
  bool needs_batch() const {
    return iteration_ || !iterations_.empty() || split.split != Split::kTrain;
  }
  // Returns the selected samples in the order of the run. Throws as RunTimeline,
  // UsageError for an iteration that the run does not have, and std::runtime_error for a
  // line of the log that contradicts the run.
  std::vector<Stretch> select(const RunTimeline& run) const;
  // Returns the samples that a selected stretch is of. The whole evaluation of a group by
  // --full-validation is made to end where the group does: groups differ in size. Throws as
  // RunSamples::find(), and UsageError for samples that the run does not take.
  const TakenSamples& find_samples(RunSamples& samples, Stretch& stretch) const;
  // Tells people if some of these samples were not taken yet: the run has come to iteration
  // `last_trained` so far.
  static void tell_what_is_to_come(const std::vector<Stretch>& selected,
                                   std::optional<int64_t> last_trained);
  // "iterations 3 to 5 of train"; for people.
  std::string description() const;

 private:
  // Returns what iterations [first, last] of the run take, or the evaluations after them. Throws
  // UsageError for an iteration behind the last one that the run's arguments ask for,
  // and where no evaluation follows; it names the last one that is there.
  std::vector<Stretch> of_iterations(const RunTimeline& run, int64_t first, int64_t last) const;
  Stretch stretch_of_line(const RunTimeline& run, const LogLine& line) const;

  std::vector<int64_t> sample_range_, iterations_;
  std::optional<int64_t> iteration_;
  std::string log_line_;
};

}  // namespace weft
