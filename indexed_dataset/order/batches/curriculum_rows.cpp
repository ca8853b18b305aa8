#include "indexed_dataset/order/batches/curriculum_rows.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft {

CurriculumRows::CurriculumRows(LengthCurriculum curriculum, const BatchSizePlan& batch_sizes,
                               int64_t finished_iterations, LengthCurriculum::Consumed consumed)
    : curriculum_(std::move(curriculum)), stretches_{{finished_iterations + 1, consumed}} {
  for (const LengthCurriculum::Stretch& next : curriculum_.stretches()) {
    const auto [iteration, begin] = stretches_.back();
    if (next.first_iteration <= iteration) continue;
    const std::optional<int64_t> rows =
        batch_sizes.consumed_after(next.first_iteration - iteration, begin.rows);
    // No run comes so far.
    if (!rows || *rows > INT64_MAX / curriculum_.sequence_length()) return;
    stretches_.push_back(
        {next.first_iteration, curriculum_.after(begin, iteration, *rows - begin.rows)});
  }
}

const CurriculumRows::Stretch& CurriculumRows::stretch_of(int64_t row) const {
  const auto next =
      std::upper_bound(stretches_.begin(), stretches_.end(), row,
                       [](int64_t r, const Stretch& stretch) { return r < stretch.begin.rows; });
  if (next == stretches_.begin()) {
    throw std::out_of_range("no row " + std::to_string(row) + ": the first one is " +
                            std::to_string(stretches_.front().begin.rows));
  }
  return *std::prev(next);
}

LengthCurriculum::Row CurriculumRows::at(int64_t row) const {
  const auto& [iteration, begin] = stretch_of(row);
  return curriculum_.row(begin, iteration, row - begin.rows);
}

int64_t CurriculumRows::tokens_before(int64_t row) const {
  const auto& [iteration, begin] = stretch_of(row);
  return curriculum_.after(begin, iteration, row - begin.rows).tokens;
}

}  // namespace weft
