#include "indexed_dataset/samples/length_curriculum.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace weft {
namespace {

// No run has more iterations.
constexpr int64_t kMaxIteration = int64_t{1} << 53;

[[noreturn]] void fail(const std::string& what) {
  throw std::invalid_argument("--curriculum-" + what);
}

void require_positive(int64_t value, const char* option) {
  if (value < 1)
    fail(std::string(option) + " must be positive (got " + std::to_string(value) + ")");
}

// Computes in the order of DeepSpeed, whose numbers are doubles, too.
int64_t grown_length(const CurriculumOptions& options, int64_t iteration) {
  const double share = static_cast<double>(iteration) / static_cast<double>(options.total_step);
  const double progress = options.schedule_type == "fixed_root"
                              ? std::pow(share, 1.0 / static_cast<double>(options.root_degree))
                              : share;
  const auto span = static_cast<double>(options.max_difficulty - options.min_difficulty);
  const double value = std::floor(progress * span + static_cast<double>(options.min_difficulty));
  if (value >= static_cast<double>(kMaxIteration)) return options.max_difficulty;
  const auto length = static_cast<int64_t>(value);
  return std::min(length - length % options.difficulty_step, options.max_difficulty);
}

}  // namespace

LengthCurriculum::LengthCurriculum(int64_t sequence_length)
    : sequence_length_(sequence_length), stretches_{{1, sequence_length}} {}

LengthCurriculum::LengthCurriculum(const CurriculumOptions& options, int64_t sequence_length)
    : sequence_length_(sequence_length), exists_(true), reshapes_(options.mode == "reshape") {
  if (options.mode != "truncate" && options.mode != "reshape")
    fail("mode " + options.mode + " is none of truncate, reshape");
  if (options.schedule_type == "fixed_discrete") {
    add_steps(options);
  } else if (options.schedule_type == "fixed_linear" || options.schedule_type == "fixed_root") {
    add_growth(options);
  } else {
    fail("schedule-type " + options.schedule_type +
         " is none of fixed_linear, fixed_root, fixed_discrete");
  }
  for (const Stretch& stretch : stretches_) {
    if (stretch.length >= 2 && stretch.length <= sequence_length) continue;
    throw std::invalid_argument(
        "the curriculum has sequences of " + std::to_string(stretch.length) +
        " tokens from iteration " + std::to_string(stretch.first_iteration) +
        " on; they must have from 2 to --seq-length " + std::to_string(sequence_length));
  }
}

void LengthCurriculum::add_steps(const CurriculumOptions& options) {
  const auto &lengths = options.difficulty, &ends = options.max_step;
  if (ends.empty() || lengths.size() != ends.size() + 1) {
    fail("difficulty has " + std::to_string(lengths.size()) + " values and --curriculum-max-step " +
         std::to_string(ends.size()) +
         "; fixed_discrete needs one length more than ends, and at least one end");
  }
  int64_t first = 1;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (stretches_.empty() || stretches_.back().length != lengths[i])
      stretches_.push_back({first, lengths[i]});
    // DeepSpeed asks no more where the largest length is reached.
    if (options.max_difficulty > 0 && lengths[i] >= options.max_difficulty) return;
    if (i == ends.size()) return;
    if (ends[i] < first) {
      fail("max-step " + std::to_string(ends[i]) +
           " ends before it begins: ends must be positive and grow");
    }
    first = ends[i] + 1;
  }
}

void LengthCurriculum::add_growth(CurriculumOptions options) {
  if (options.max_difficulty == 0) options.max_difficulty = sequence_length_;
  require_positive(options.min_difficulty, "min-difficulty");
  require_positive(options.total_step, "total-step");
  require_positive(options.difficulty_step, "difficulty-step");
  require_positive(options.root_degree, "root-degree");
  if (options.max_difficulty < options.min_difficulty) {
    fail("max-difficulty " + std::to_string(options.max_difficulty) +
         " is less than --curriculum-min-difficulty " + std::to_string(options.min_difficulty));
  }
  // Refused before the lengths are listed: there is one for each step.
  if (options.max_difficulty > sequence_length_) {
    fail("max-difficulty " + std::to_string(options.max_difficulty) +
         " is more than --seq-length " + std::to_string(sequence_length_));
  }
  if (options.min_difficulty == options.max_difficulty) {
    stretches_.push_back({1, options.max_difficulty});
    return;
  }
  for (int64_t first = 1;;) {
    const int64_t length = grown_length(options, first);
    stretches_.push_back({first, length});
    if (length == options.max_difficulty) return;
    // Lengths never shrink: the next one begins between `low`, which has this one, and `high`.
    int64_t low = first, high = first;
    for (int64_t stride = 1; grown_length(options, high) == length; stride *= 2) {
      low = high;
      high += stride;
      if (high > kMaxIteration) return;
    }
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (grown_length(options, middle) == length ? low : high) = middle;
    }
    first = high;
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
