// When a run takes which of its samples: its iterations and evaluations in order, over all of its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "indexed_dataset/run_record/run_segments.h"

namespace weft {

// Consecutive samples [first, last) of a split that belong together: iterations of one segment of the run,
// or one evaluation.
struct Stretch {
  const RunSegment* segment = nullptr;
  Split split = Split::kTrain;
  int64_t first = 0, last = 0;
  // An evaluation follows this one; 0: it is not known which evaluation took the samples.
  int64_t iteration = 0;
  bool at_end = false;  // it is the one at the end of training
};

// Returns all stretches of a split, for each group of its datasets. The last ones are what the run will
// take if it goes on as its arguments say. Throws std::runtime_error where the run's folder does not
// tell, and std::invalid_argument for numbers that do not fit.
std::vector<Stretch> stretches_of(const std::vector<RunSegment>& segments, Split split);

// Returns the evaluation when training is done, which takes what follows those in between; nothing without one.
// Throws as stretches_of().
std::optional<Stretch> find_last_evaluation(const std::vector<RunSegment>& segments);

// Returns the last iteration that the arguments of a segment ask for.
int64_t num_iterations_of(const RunSegment& segment);

// Returns words that refuse an iteration behind the last one of a run, and nothing for others and for runs that do not
// tell their batch size.
std::string words_for_no_iteration(const std::vector<RunSegment>& segments, int64_t iteration);

// Where a sample stands in its iteration or evaluation.
struct SamplePlace {
  // Nothing if the batch size is not told, or an evaluation is not known.
  std::optional<int64_t> iteration;
  // The data-parallel rank that took it, the rank's micro-batch (counted within the iteration, or within
  // the evaluation), and the slot in that; nothing if the run does not tell the micro-batch size.
  struct Slot {
    int64_t rank = 0, micro_batch = 0, slot = 0;
    bool operator==(const Slot&) const = default;
  };
  std::optional<Slot> slot;
  bool at_end = false;  // the evaluation is the one when training is done
  bool operator==(const SamplePlace&) const = default;
};

// Tells the places of a stretch's samples, which are asked for in ascending order.
class PlaceFinder {
 public:
  explicit PlaceFinder(const Stretch& stretch);
  SamplePlace place_of(int64_t sample_idx);

 private:
  const Stretch& stretch_;
  bool is_known_ = false;
  std::optional<BatchSizePlan> plan_;
  int64_t iteration_ = 0, begin_ = 0,
          end_ = 0;  // the iteration of the last answer, and its samples
};

}  // namespace weft
