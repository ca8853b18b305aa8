// Where the samples of a run stand: in which iteration or evaluation, and which rank takes them.
#pragma once

#include <cstdint>
#include <optional>

#include "indexed_dataset/run_record/run_timeline.h"

namespace weft {

// Where a sample stands in its iteration or evaluation.
struct SamplePlace {
  // Nothing if the batch size is not told, or an evaluation is not known.
  std::optional<int64_t> iteration;
  // The data-parallel rank that took it, the rank's micro-batch (counted within the iteration, or
  // within the evaluation), and the slot in that; nothing if the run does not tell the micro-batch
  // size.
  struct Slot {
    int64_t rank = 0, micro_batch = 0, slot = 0;
    bool operator==(const Slot&) const = default;
  };
  std::optional<Slot> slot;
  bool is_untrained = false;  // the iteration has consumed its samples and trained nothing
  bool at_end = false;        // the evaluation is the one when training is done
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
