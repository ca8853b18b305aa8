// When a run takes which of its samples: its iterations and evaluations in order, over all of its
// segments.
//
//   iterations   1 ... 300 | 301 ... 700        a segment begins where the run was resumed
//   samples      0 ... S   | S ...              of training; those of evaluations are counted apart
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/run_record/run_metrics.h"
#include "indexed_dataset/run_record/run_segments.h"

namespace weft {

// Consecutive samples [first, last) of a split that belong together: iterations of one segment of
// the run, or one evaluation.
struct Stretch {
  const RunSegment* segment = nullptr;
  Split split = Split::kTrain;
  int64_t first = 0, last = 0;
  // An evaluation follows this one; 0: it is not known which evaluation took the samples.
  int64_t iteration = 0;
  bool at_end = false;  // it is the one at the end of training
};

// All functions throw std::runtime_error where the run's folder does not tell, as the run began
// there from another run's checkpoint or does not tell its batch size, and UsageError
// for samples that do not fit 64 bits.
class RunTimeline {
 public:
  // `last_trained` is the iteration that the run has come to, where its folder tells.
  explicit RunTimeline(std::vector<RunSegment> segments,
                       std::optional<int64_t> last_trained = std::nullopt);
  // Stretches point to its segments.
  RunTimeline(RunTimeline&&) = default;
  RunTimeline(const RunTimeline&) = delete;

  const std::vector<RunSegment>& segments() const { return segments_; }
  const std::optional<int64_t>& last_trained() const { return last_trained_; }
  // Returns the last iteration that the run's arguments ask for.
  int64_t last_iteration() const { return last_iteration_of(segments_.back()); }
  static int64_t last_iteration_of(const RunSegment& segment);
  // Returns words that refuse an iteration behind the last one; "" for others and for runs that do
  // not tell their batch size.
  std::string refusal_of(int64_t iteration) const;

  // Returns the segment that an iteration belongs to.
  const RunSegment& segment_of(int64_t iteration) const;
  // Returns the samples of an iteration of training.
  Stretch of_iteration(int64_t iteration) const;
  // Returns those of iterations [first, last]: a stretch for each segment. Of validation it returns
  // the evaluations that follow one of them, and behind the last iteration the one at the end of
  // training, which goes on where those before it ended; none, if there are none.
  std::vector<Stretch> of_range(int64_t first, int64_t last, Split split = Split::kTrain) const;
  // Returns whose samples [first, last) of a split are: of the training set these may be several
  // segments', in order. Throws std::runtime_error for a validation or test set that was another
  // one before the run was resumed.
  std::vector<Stretch> of_samples(int64_t first, int64_t last, Split split) const;
  // Returns all stretches of a split, for each group of its datasets. The last ones are what the
  // run will take if it goes on as its arguments say.
  std::vector<Stretch> all(Split split) const;

  // Returns the number of the sample of `split` that follows the last one which the run may take.
  int64_t end_of_samples(const RunSegment& segment, Split split) const;
  // Throws std::runtime_error if a step of metrics.jsonl took other samples than the segments say:
  // the two files are of different runs.
  void check_step(const LoggedStep& step) const;

 private:
  const BatchSizePlan& plan_of(const RunSegment& segment) const;
  // Returns the samples that a segment has consumed at the end of an iteration; its first one
  // begins at its own.
  int64_t consumed_at(const RunSegment& segment, int64_t iteration) const;
  // Returns the last iteration that is this segment's.
  int64_t end_of(size_t segment_idx) const;
  std::vector<Stretch> training() const;
  std::vector<Stretch> evaluations() const;
  std::vector<Stretch> test() const;

  std::vector<RunSegment> segments_;
  std::optional<int64_t> last_trained_;
  std::vector<std::optional<BatchSizePlan>> plans_;  // of each segment that tells its batch size
};

}  // namespace weft
