#include "preprocess/inspect/lookup/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/inspect/lookup/taken_samples.h"

namespace weft {
namespace {

std::map<std::string, std::string> datasets_of(const RunSegment& segment) {
  std::map<std::string, std::string> datasets;
  const std::vector<std::string> prefixes = segment.order.blends.prefixes();
  for (size_t i = 0; i < segment.datasets.size(); ++i)
    datasets[prefixes[i]] = describe(segment.datasets[i]);
  return datasets;
}

// Returns in what the training of two segments differs.
std::vector<OrderDifference> differences_of(const RunSegment& a, const RunSegment& b) {
  std::vector<OrderDifference> differences =
      differences_in_samples(a.order, b.order, Split::kTrain);
  for (OrderDifference& difference : differences_in_iterations(a.order, b.order))
    differences.push_back(std::move(difference));
  const auto compare = [&](const std::string& name, const std::string& x, const std::string& y) {
    if (x != y) differences.push_back({name, x, y});
  };
  const auto sha256_of = [](const RunSegment& segment) {
    return segment.unsee ? segment.unsee->sha256 : "";
  };
  compare("--unsee, by its SHA-256", sha256_of(a), sha256_of(b));
  const auto of_b = datasets_of(b);
  for (const auto& [prefix, described] : datasets_of(a)) {
    // A dataset that one run alone has is among the training datasets already.
    if (const auto other = of_b.find(prefix); other != of_b.end())
      compare("the dataset " + prefix, described, other->second);
  }
  return differences;
}

// Returns whether `earlier` has consumed what `later` begins with when it comes to that iteration:
// rows of a curriculum follow from it.
bool reaches_begin_of(const RunSegment& earlier, const RunSegment& later) {
  const std::optional<int64_t> consumed =
      batch_sizes_of(earlier.order)
          .consumed_after(later.resumed.iteration - earlier.resumed.iteration,
                          earlier.resumed.samples);
  if (consumed != later.resumed.samples) return false;
  const std::optional<CurriculumRows> rows = curriculum_rows_of(earlier);
  return rows && rows->tokens_before(later.resumed.samples) == later.resumed.tokens;
}

// Returns whether both take the same parts of the same samples where they take samples of the same
// numbers. Batches may differ in size.
bool have_equal_training(const RunSegment& a, const RunSegment& b) {
  for (const OrderDifference& difference : differences_of(a, b)) {
    if (difference.name != "--global-batch-size" && difference.name != "--rampup-batch-size" &&
        difference.name != "--step-batch-size-schedule")
      return false;
  }
  if (a.order.curriculum.schedule_type.empty()) return true;
  return a.resumed.iteration <= b.resumed.iteration ? reaches_begin_of(a, b)
                                                    : reaches_begin_of(b, a);
}

// Goes from an iteration to the next one.
class SegmentWalk {
 public:
  SegmentWalk(const RunTimeline& run, int64_t iteration) : run_(run), iteration_(iteration) {
    begin_segment();
  }
  const RunSegment& segment() const { return *segment_; }
  int64_t first() const { return first_; }
  int64_t last() const { return last_; }
  void next() {
    ++iteration_;
    if (&run_.segment_of(iteration_) != segment_) return begin_segment();
    first_ = last_;
    last_ += plan_->batch_size(first_);
  }

 private:
  void begin_segment() {
    const Stretch stretch = run_.of_iteration(iteration_);
    segment_ = stretch.segment;
    plan_ = batch_sizes_of(segment_->order);
    first_ = stretch.first;
    last_ = stretch.last;
  }

  const RunTimeline& run_;
  const RunSegment* segment_ = nullptr;
  std::optional<BatchSizePlan> plan_;
  int64_t iteration_, first_ = 0, last_ = 0;
};

// Returns whether both segments take the same parts of samples of the same numbers in iterations
// [first, last], which are theirs.
bool take_equal_parts(const RunSegment& a, const RunSegment& b, int64_t first, int64_t last) {
  struct Walk {
    explicit Walk(const RunSegment& segment, int64_t before)
        : plan(batch_sizes_of(segment.order)),
          rows(curriculum_rows_of(segment)),
          consumed(plan.consumed_after(before - segment.resumed.iteration, segment.resumed.samples)
                       .value()) {}
    std::array<int64_t, 4> row() const {
      if (!rows) return {};
      const auto& [sample, begin, length, num_repeated] = rows->at(consumed);
      return {sample, begin, length, num_repeated};
    }
    BatchSizePlan plan;
    std::optional<CurriculumRows> rows;
    int64_t consumed;
  };
  Walk of_a(a, first - 1), of_b(b, first - 1);
  if (of_a.rows.has_value() != of_b.rows.has_value()) return false;
  for (int64_t i = first; i <= last; ++i) {
    if (of_a.consumed != of_b.consumed || of_a.row() != of_b.row()) return false;
    of_a.consumed += of_a.plan.batch_size(of_a.consumed);
    of_b.consumed += of_b.plan.batch_size(of_b.consumed);
  }
  return of_a.consumed == of_b.consumed;
}

// Returns whether iterations [first, last] of `a` would take anything else with the value that `b`
// has of one argument.
bool has_effect(const std::string& name, const RunSegment& a, const RunSegment& b, int64_t first,
                int64_t last) {
  RunSegment changed = a;
  const auto exchange = [&](const auto& field, auto& value, const auto& of_b) {
    if (name == "--" + std::string(field.flag)) value = of_b;
  };
  visit_sample_fields(exchange, changed.order, b.order);
  try {
    return !take_equal_parts(a, changed, first, last);
  } catch (const std::exception&) {
    return true;  // alone it makes no order
  }
}

// Returns the arguments and datasets that differ, without those that change no iteration of [first,
// last].
std::vector<OrderDifference> causes_of(const RunSegment& a, const RunSegment& b, int64_t first,
                                       int64_t last) {
  std::vector<OrderDifference> causes = differences_of(a, b);
  for (const OrderDifference& other : differences_in_iterations(a.order, b.order)) {
    if (has_effect(other.name, a, b, first, last) || has_effect(other.name, b, a, first, last))
      continue;
    std::erase_if(causes, [&](const OrderDifference& one) { return one.name == other.name; });
  }
  return causes.empty() ? differences_of(a, b) : causes;
}

}  // namespace

RunDifference compare_runs(const RunTimeline& a, const RunTimeline& b, int64_t first,
                           int64_t last) {
  RunDifference result;
  result.first_iteration = first;
  result.last_iteration = std::min({last, a.last_iteration(), b.last_iteration()});
  if (result.last_iteration < first) throw UsageError("the runs have no such iteration in common");
  SegmentWalk of_a(a, first), of_b(b, first);
  // Two segments side by side, and their iterations: those of the first difference, or the first.
  struct Pair {
    const RunSegment *a = nullptr, *b = nullptr;
    int64_t first = 0, last = 0;
  };
  Pair now, told;
  bool are_equal = false;
  for (int64_t i = first; i <= result.last_iteration; ++i, of_a.next(), of_b.next()) {
    if (&of_a.segment() != now.a || &of_b.segment() != now.b) {
      now = {.a = &of_a.segment(), .b = &of_b.segment(), .first = i};
      are_equal = have_equal_training(*now.a, *now.b);
    }
    now.last = i;
    const bool is_different =
        !are_equal || of_a.first() != of_b.first() || of_a.last() != of_b.last();
    if (is_different && result.num_different++ == 0) {
      result.first_different = i;
      told = now;
    }
    if (!told.a || (told.a == now.a && told.b == now.b)) told = now;
  }
  const auto& [where_a, where_b, where_first, where_last] = told;
  for (const auto& [name, value_a, value_b] :
       result.num_different == 0 ? differences_of(*where_a, *where_b)
                                 : causes_of(*where_a, *where_b, where_first, where_last)) {
    const auto shown = [](const std::string& value) { return value.empty() ? "none" : value; };
    result.reasons.push_back(name + ": " + shown(value_a) + " and " + shown(value_b));
  }
  const auto begin_of = [](const RunSegment& segment) {
    return fmt::format("iteration {}, sample {}", segment.resumed.iteration,
                       segment.resumed.samples);
  };
  if (begin_of(*where_a) != begin_of(*where_b)) {
    result.reasons.push_back("where it was resumed: " + begin_of(*where_a) + " and " +
                             begin_of(*where_b));
  }
  return result;
}

}  // namespace weft
