#include "preprocess/inspect/lookup/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

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

// Returns the last iteration that both runs' arguments ask for.
int64_t end_of_both(const RunTimeline& a, const RunTimeline& b) {
  return std::min(a.last_iteration(), b.last_iteration());
}

}  // namespace

RunDifference compare_runs(const RunTimeline& a, const RunTimeline& b, int64_t first,
                           int64_t last) {
  RunDifference result;
  result.first_iteration = first;
  result.last_iteration = std::min(last, end_of_both(a, b));
  if (result.last_iteration < first)
    throw std::invalid_argument("the runs have no such iteration in common");
  SegmentWalk of_a(a, first), of_b(b, first);
  const RunSegment *where_a = &of_a.segment(), *where_b = &of_b.segment();
  const RunSegment *before_a = nullptr, *before_b = nullptr;
  bool are_equal = false;
  for (int64_t i = first; i <= result.last_iteration; ++i, of_a.next(), of_b.next()) {
    const RunSegment &x = of_a.segment(), &y = of_b.segment();
    if (&x != before_a || &y != before_b) are_equal = have_equal_training(x, y);
    before_a = &x;
    before_b = &y;
    if (are_equal && of_a.first() == of_b.first() && of_a.last() == of_b.last()) continue;
    if (result.num_different++ > 0) continue;
    result.first_different = i;
    where_a = &x;
    where_b = &y;
  }
  for (const auto& [name, value_a, value_b] : differences_of(*where_a, *where_b)) {
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
