// Sequence lengths that grow during a run: DeepSpeed's curriculum learning of type seqlen.
// [Li et al. 2022, arXiv:2108.06084; DeepSpeed runtime/data_pipeline/curriculum_scheduler.py]
//
// Every batch has rows of one length d, which follows from its iteration alone. A row is a piece of
// a sample of L tokens:
//   truncate  its first d tokens; the others are never trained (DeepSpeed)
//   reshape   the d tokens after those of the row before it, so that every token is trained once. The
//             last row of a sample ends with the sample: it begins with tokens that were trained
//             already, for context, and they have no loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "indexed_dataset/order/batches/difficulty_schedule.h"

namespace weft {

class LengthCurriculum {
 public:
  // A run of `sequence_length` tokens in each row.
  explicit LengthCurriculum(int64_t sequence_length);
  // Throws UsageError for options that make no schedule, in words of the options.
  LengthCurriculum(const CurriculumOptions& options, int64_t sequence_length);

  bool exists() const { return exists_; }
  bool reshapes() const { return reshapes_; }
  int64_t sequence_length() const { return sequence_length_; }  // L
  // Returns the length of the rows of an iteration, which are counted from 1.
  int64_t length(int64_t iteration) const;
  // Iterations from `first_iteration` on have this length, up to the next stretch.
  struct Stretch {
    int64_t first_iteration = 1, length = 0;
  };
  const std::vector<Stretch>& stretches() const { return stretches_; }

  // The state of a run between two steps: the rows and the tokens that were trained so far. With
  // reshape the tokens tell where in the order of samples the run is.
  struct Consumed {
    int64_t rows = 0, tokens = 0;
  };
  // Returns the state after the batch of this iteration, of `num_rows` rows.
  Consumed after(Consumed before, int64_t iteration, int64_t num_rows) const;

  // Tokens [begin, begin + length] of a sample: the last one is only a target. The first
  // `num_repeated` positions were trained before.
  struct Row {
    int64_t sample = 0, begin = 0, length = 0, num_repeated = 0;
  };
  // Returns row `idx` of the batch of this iteration, which begins after `consumed`.
  Row row(Consumed consumed, int64_t iteration, int64_t idx) const;
  // Returns the number of samples that rows are taken from, up to this state.
  int64_t samples_begun(Consumed consumed) const;

 private:
  int64_t sequence_length_;
  bool exists_ = false, reshapes_ = false;
  std::vector<Stretch> stretches_;  // the first one begins with iteration 1; lengths differ
};

}  // namespace weft
