#include "indexed_dataset/order/batches/difficulty_schedule.h"

#include <algorithm>
#include <cmath>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

// No run has more iterations.
constexpr int64_t kMaxIteration = int64_t{1} << 53;

// Computes in the order of DeepSpeed, whose numbers are doubles, too.
int64_t grown_difficulty(const CurriculumOptions& options, int64_t iteration) {
  const double share = static_cast<double>(iteration) / static_cast<double>(options.total_step);
  const double progress = options.schedule_type == "fixed_root"
                              ? std::pow(share, 1.0 / static_cast<double>(options.root_degree))
                              : share;
  const auto span = static_cast<double>(options.max_difficulty - options.min_difficulty);
  const double value = std::floor(progress * span + static_cast<double>(options.min_difficulty));
  if (value >= static_cast<double>(kMaxIteration)) return options.max_difficulty;
  const auto difficulty = static_cast<int64_t>(value);
  return std::min(difficulty - difficulty % options.difficulty_step, options.max_difficulty);
}

class Schedule {
 public:
  Schedule(const CurriculumOptions& options, const std::string& prefix)
      : options_(options), prefix_(prefix) {}

  std::vector<DifficultyStretch> stretches() {
    if (options_.schedule_type == "fixed_discrete") {
      add_steps();
    } else if (options_.schedule_type == "fixed_linear" || options_.schedule_type == "fixed_root") {
      add_growth();
    } else {
      fail("schedule-type " + options_.schedule_type +
           " is none of fixed_linear, fixed_root, fixed_discrete");
    }
    return std::move(stretches_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw UsageError(prefix_ + what); }
  void require_positive(int64_t value, const char* option) const {
    if (value < 1)
      fail(std::string(option) + " must be positive (got " + std::to_string(value) + ")");
  }

  void add_steps() {
    const auto &difficulties = options_.difficulty, &ends = options_.max_step;
    if (ends.empty() || difficulties.size() != ends.size() + 1) {
      fail("difficulty has " + std::to_string(difficulties.size()) + " values and " + prefix_ +
           "max-step " + std::to_string(ends.size()) +
           "; fixed_discrete needs one difficulty more than ends, and at least one end");
    }
    int64_t first = 1;
    for (size_t i = 0; i < difficulties.size(); ++i) {
      if (stretches_.empty() || stretches_.back().difficulty != difficulties[i])
        stretches_.push_back({first, difficulties[i]});
      // DeepSpeed asks no more where the largest difficulty is reached.
      if (options_.max_difficulty > 0 && difficulties[i] >= options_.max_difficulty) return;
      if (i == ends.size()) return;
      if (ends[i] < first) {
        fail("max-step " + std::to_string(ends[i]) +
             " ends before it begins: ends must be positive and grow");
      }
      first = ends[i] + 1;
    }
  }

  void add_growth() {
    if (options_.min_difficulty < 0)
      fail("min-difficulty must not be negative (got " + std::to_string(options_.min_difficulty) +
           ")");
    require_positive(options_.total_step, "total-step");
    require_positive(options_.difficulty_step, "difficulty-step");
    require_positive(options_.root_degree, "root-degree");
    if (options_.max_difficulty < options_.min_difficulty) {
      fail("max-difficulty " + std::to_string(options_.max_difficulty) + " is less than " +
           prefix_ + "min-difficulty " + std::to_string(options_.min_difficulty));
    }
    if (options_.min_difficulty == options_.max_difficulty) {
      stretches_.push_back({1, options_.max_difficulty});
      return;
    }
    for (int64_t first = 1;;) {
      const int64_t difficulty = grown_difficulty(options_, first);
      stretches_.push_back({first, difficulty});
      if (difficulty == options_.max_difficulty) return;
      // Difficulties never shrink: the next one begins between `low`, which has this one, and
      // `high`.
      int64_t low = first, high = first;
      for (int64_t stride = 1; grown_difficulty(options_, high) == difficulty; stride *= 2) {
        low = high;
        high += stride;
        if (high > kMaxIteration) return;
      }
      while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        (grown_difficulty(options_, middle) == difficulty ? low : high) = middle;
      }
      first = high;
    }
  }

  const CurriculumOptions& options_;
  const std::string& prefix_;
  std::vector<DifficultyStretch> stretches_;
};

}  // namespace

std::vector<DifficultyStretch> difficulty_stretches(const CurriculumOptions& options,
                                                    const std::string& prefix) {
  return Schedule(options, prefix).stretches();
}

}  // namespace weft
