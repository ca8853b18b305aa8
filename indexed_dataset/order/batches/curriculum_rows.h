// The rows of a run with a sequence-length curriculum, by the numbers that its log counts as
// consumed samples.
#pragma once

#include <cstdint>
#include <vector>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/batches/length_curriculum.h"

namespace weft {

// Thread-safe after construction.
class CurriculumRows {
 public:
  // The run, or a part of it, goes on after `finished_iterations`, when so much was consumed.
  CurriculumRows(LengthCurriculum curriculum, const BatchSizePlan& batch_sizes,
                 int64_t finished_iterations, LengthCurriculum::Consumed consumed);

  // Returns what row `row` is made of, in the time of a binary search. Throws std::out_of_range for
  // a row before the first one.
  LengthCurriculum::Row at(int64_t row) const;
  // Returns the tokens that the run has consumed before this row; those that rows repeat count
  // once.
  int64_t tokens_before(int64_t row) const;
  const LengthCurriculum& curriculum() const { return curriculum_; }

 private:
  // Rows from begin.rows on have one length, up to the next stretch. Within it batches do not
  // matter: LengthCurriculum::after() of two batches is that of both as one.
  struct Stretch {
    int64_t iteration = 0;  // its first one
    LengthCurriculum::Consumed begin;
  };
  const Stretch& stretch_of(int64_t row) const;

  LengthCurriculum curriculum_;
  std::vector<Stretch> stretches_;
};

}  // namespace weft
