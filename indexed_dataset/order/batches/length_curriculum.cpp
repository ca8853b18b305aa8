#include "indexed_dataset/order/batches/length_curriculum.h"

#include <algorithm>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

LengthCurriculum::LengthCurriculum(int64_t sequence_length)
    : sequence_length_(sequence_length), stretches_{{1, sequence_length}} {}

LengthCurriculum::LengthCurriculum(const CurriculumOptions& options, int64_t sequence_length)
    : sequence_length_(sequence_length), exists_(true), reshapes_(options.mode == "reshape") {
  const std::string prefix = "--curriculum-";
  if (options.mode != "truncate" && options.mode != "reshape")
    throw UsageError(prefix + "mode " + options.mode + " is none of truncate, reshape");
  CurriculumOptions resolved = options;
  const bool grows =
      options.schedule_type == "fixed_linear" || options.schedule_type == "fixed_root";
  if (grows && options.max_difficulty == 0) resolved.max_difficulty = sequence_length;
  if (grows && options.min_difficulty < 1) {
    throw UsageError(prefix + "min-difficulty must be positive (got " +
                     std::to_string(options.min_difficulty) + ")");
  }
  // Refused before the lengths are listed: there is one for each step.
  if (grows && resolved.max_difficulty > sequence_length) {
    throw UsageError(prefix + "max-difficulty " + std::to_string(resolved.max_difficulty) +
                     " is more than --seq-length " + std::to_string(sequence_length));
  }
  for (const auto& [first_iteration, length] : difficulty_stretches(resolved, prefix)) {
    stretches_.push_back({first_iteration, length});
    if (length >= 2 && length <= sequence_length) continue;
    throw UsageError("the curriculum has sequences of " + std::to_string(length) +
                     " tokens from iteration " + std::to_string(first_iteration) +
                     " on; they must have from 2 to --seq-length " +
                     std::to_string(sequence_length));
  }
}

int64_t LengthCurriculum::length(int64_t iteration) const {
  const auto next = std::upper_bound(
      stretches_.begin(), stretches_.end(), iteration,
      [](int64_t i, const Stretch& stretch) { return i < stretch.first_iteration; });
  return std::prev(next)->length;
}

LengthCurriculum::Consumed LengthCurriculum::after(Consumed before, int64_t iteration,
                                                   int64_t num_rows) const {
  const int64_t L = sequence_length_, d = length(iteration);
  const Consumed all_new = {before.rows + num_rows, before.tokens + num_rows * d};
  if (!reshapes_ || d == 0) return all_new;
  // The rest of the sample that is begun takes rows_of_left rows, each later one rows_of_sample.
  const int64_t left = L - before.tokens % L;
  const int64_t rows_of_left = (left + d - 1) / d, rows_of_sample = (L + d - 1) / d;
  if (num_rows < rows_of_left) return all_new;
  const int64_t rest = num_rows - rows_of_left;
  return {before.rows + num_rows,
          before.tokens + left + rest / rows_of_sample * L + rest % rows_of_sample * d};
}

LengthCurriculum::Row LengthCurriculum::row(Consumed consumed, int64_t iteration,
                                            int64_t idx) const {
  const int64_t d = length(iteration);
  if (!reshapes_) return {consumed.rows + idx, 0, d, 0};
  const int64_t position = after(consumed, iteration, idx).tokens;
  const int64_t offset = position % sequence_length_;
  const int64_t begin = std::min(offset, sequence_length_ - d);
  return {position / sequence_length_, begin, d, offset - begin};
}

int64_t LengthCurriculum::samples_begun(Consumed consumed) const {
  if (!reshapes_) return consumed.rows;
  return (consumed.tokens + sequence_length_ - 1) / sequence_length_;
}

}  // namespace weft
