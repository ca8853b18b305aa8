#include "indexed_dataset/run_record/run_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/run_record/sample_query.h"

namespace weft {
namespace {

void check_evaluations_known(const RunSegment& segment) {
  if (segment.unknown_evaluations.empty()) return;
  throw std::runtime_error(
      "with " + segment.unknown_evaluations +
      " the samples of validation and test are not computed here, as versions of Megatron differ "
      "in how many they take; those of training are");
}

// Returns the validation of a segment that comes after `num_before` others of it. With
// --full-validation that is all samples of the largest group; the others have fewer.
Stretch validation_of(const RunSegment& segment, int64_t num_before, int64_t iteration) {
  check_evaluations_known(segment);
  const SampleOrder& order = segment.order;
  // Those programs evaluate with the batch size of the iteration before, later ones with the full
  // one.
  if (order.takes_megatron_caches && rules_of(order.sample_order).precedes_core &&
      batch_sizes_of(order).changes()) {
    throw std::runtime_error(
        "Megatron before Core evaluated with the batch size of the moment, which changes in this run: "
        "the samples of an evaluation are not computed; give --sample-range");
  }
  Stretch stretch{.segment = &segment, .split = Split::kValid, .iteration = iteration};
  if (order.full_validation && order.asked_samples) {
    stretch.last = order.asked_samples->valid_samples;
    return stretch;
  }
  if (order.full_validation || !order.global_batch_size) {
    throw std::runtime_error(
        "the run does not tell how many samples a validation takes; give --sample-range");
  }
  int64_t samples = 0;
  if (__builtin_mul_overflow(order.eval_iters, *order.global_batch_size, &samples) ||
      __builtin_mul_overflow(num_before, samples, &stretch.first) ||
      __builtin_add_overflow(stretch.first, segment.resumed_valid_samples, &stretch.first) ||
      __builtin_add_overflow(stretch.first, samples, &stretch.last))
    throw UsageError("the samples of an evaluation do not fit 64 bits");
  return stretch;
}

bool has_evaluations(const RunSegment& segment, Split split) {
  return segment.order.eval_iters != 0 && !segment.order.blends.of(split).empty();
}

}  // namespace

RunTimeline::RunTimeline(std::vector<RunSegment> segments, std::optional<int64_t> last_trained)
    : segments_(std::move(segments)), last_trained_(last_trained) {
  for (const RunSegment& segment : segments_) {
    std::optional<BatchSizePlan>& plan = plans_.emplace_back();
    if (segment.order.global_batch_size) plan = batch_sizes_of(segment.order);
  }
}

int64_t RunTimeline::last_iteration_of(const RunSegment& segment) {
  if (segment.num_iterations) return *segment.num_iterations;
  if (segment.order.train_iters) return *segment.order.train_iters;
  return segment.resumed.iteration +
         batch_sizes_of(segment.order)
             .iterations_within(segment.order.train_samples.value_or(0), segment.resumed.samples);
}

std::string RunTimeline::refusal_of(int64_t iteration) const {
  const SampleOrder& order = segments_.back().order;
  if (!order.global_batch_size) return "";
  const int64_t last = last_iteration();
  if (iteration <= last) return "";
  return fmt::format(
      "iteration {} is asked for, but the run's last one is {}, by {}", iteration, last,
      order.train_iters ? fmt::format("--train-iters {}", *order.train_iters)
                        : fmt::format("--train-samples {}", order.train_samples.value_or(0)));
}

const RunSegment& RunTimeline::segment_of(int64_t iteration) const {
  const auto next = std::find_if(
      segments_.begin(), segments_.end(),
      [&](const RunSegment& segment) { return segment.resumed.iteration >= iteration; });
  if (next == segments_.begin()) {
    throw std::runtime_error(
        fmt::format("the run's folder tells of iterations from {} on: the run began there, from a "
                    "checkpoint of another run, whose folder may tell of iteration {}",
                    segments_.front().resumed.iteration + 1, iteration));
  }
  return *(next - 1);
}

const BatchSizePlan& RunTimeline::plan_of(const RunSegment& segment) const {
  const auto& plan = plans_[static_cast<size_t>(&segment - segments_.data())];
  if (!plan) throw std::runtime_error("the run tells no global_batch_size");
  return *plan;
}

int64_t RunTimeline::consumed_at(const RunSegment& segment, int64_t iteration) const {
  const std::optional<int64_t> consumed = plan_of(segment).consumed_after(
      iteration - segment.resumed.iteration, segment.resumed.samples);
  if (consumed) return *consumed;
  throw UsageError(fmt::format("--iteration {}: its samples do not fit 64 bits", iteration));
}

int64_t RunTimeline::end_of(size_t segment_idx) const {
  return segment_idx + 1 < segments_.size() ? segments_[segment_idx + 1].resumed.iteration
                                            : INT64_MAX;
}

Stretch RunTimeline::of_iteration(int64_t iteration) const {
  const RunSegment& segment = segment_of(iteration);
  return {.segment = &segment,
          .first = consumed_at(segment, iteration - 1),
          .last = consumed_at(segment, iteration)};
}

std::vector<Stretch> RunTimeline::of_range(int64_t first, int64_t last, Split split) const {
  std::vector<Stretch> stretches;
  if (split == Split::kTrain) {
    segment_of(first);  // refuses an iteration before all of them
    for (size_t i = 0; i < segments_.size(); ++i) {
      const RunSegment& segment = segments_[i];
      const int64_t from = std::max(first, segment.resumed.iteration + 1),
                    to = std::min(last, end_of(i));
      if (from > to) continue;
      stretches.push_back({.segment = &segment,
                           .first = consumed_at(segment, from - 1),
                           .last = consumed_at(segment, to)});
    }
    return stretches;
  }
  for (const Stretch& stretch : all(split)) {
    if (first <= stretch.iteration && stretch.iteration <= last) stretches.push_back(stretch);
  }
  return stretches;
}

std::vector<Stretch> RunTimeline::of_samples(int64_t first, int64_t last, Split split) const {
  if (split != Split::kTrain) {
    const RunSegment& newest = segments_.back();
    check_evaluations_known(newest);
    for (const RunSegment& segment : segments_) {
      if (have_equal_samples(segment, newest, split)) continue;
      throw std::runtime_error(fmt::format(
          "the run was resumed at iteration {} with other data, length, seed or number of samples, "
          "and its folder does not tell which evaluation took samples {} to {} of {}; give the "
          "arguments of the part that you mean by hand (--data-path ...)",
          newest.resumed.iteration, first, last, split_name(split)));
    }
    return {{.segment = &newest, .split = split, .first = first, .last = last}};
  }
  if (first < segments_.front().resumed.samples) {
    throw std::runtime_error(
        fmt::format("the run's folder tells of samples from {} on: the run began there, from a "
                    "checkpoint of another run, whose folder may tell of sample {}",
                    segments_.front().resumed.samples, first));
  }
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool is_last = i + 1 == segments_.size();
    const int64_t begin = std::max(first, segments_[i].resumed.samples);
    const int64_t end = is_last ? last : std::min(last, segments_[i + 1].resumed.samples);
    if (begin < end) stretches.push_back({.segment = &segments_[i], .first = begin, .last = end});
  }
  return stretches;
}

std::vector<Stretch> RunTimeline::all(Split split) const {
  return split == Split::kTrain ? training() : split == Split::kValid ? evaluations() : test();
}

// Whole batches only.
std::vector<Stretch> RunTimeline::training() const {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const RunSegment& segment = segments_[i];
    Stretch stretch{.segment = &segment, .first = segment.resumed.samples};
    if (i + 1 < segments_.size()) {
      stretch.last = segments_[i + 1].resumed.samples;
    } else if (!segment.order.global_batch_size) {
      stretch.last = end_of_samples(segment, Split::kTrain);
    } else {
      stretch.last = consumed_at(segment, std::max(last_iteration(), segment.resumed.iteration));
    }
    if (stretch.first < stretch.last) stretches.push_back(stretch);
  }
  return stretches;
}

// Segments may differ in their interval: the evaluations of each follow its own.
std::vector<Stretch> RunTimeline::evaluations() const {
  std::vector<Stretch> stretches;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const RunSegment& segment = segments_[i];
    if (!has_evaluations(segment, Split::kValid)) continue;
    const bool is_last = i + 1 == segments_.size();
    const int64_t end = is_last ? last_iteration() : end_of(i);
    const int64_t interval = segment.order.eval_interval;
    int64_t num_before = 0;
    if (segment.makes_up_evaluation)
      stretches.push_back(validation_of(segment, num_before++, segment.resumed.iteration));
    for (int64_t at = segment.resumed.iteration / interval * interval + interval; at <= end;
         at += interval) {
      // The next segment makes up for one that was cut short.
      if (!is_last && at == end && segments_[i + 1].makes_up_evaluation) continue;
      stretches.push_back(validation_of(segment, num_before++, at));
    }
    if (!is_last) continue;
    stretches.push_back(validation_of(segment, num_before, end));
    stretches.back().at_end = true;
  }
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Stretch& a, const Stretch& b) { return a.iteration < b.iteration; });
  return stretches;
}

std::vector<Stretch> RunTimeline::test() const {
  const RunSegment& last = segments_.back();
  if (!has_evaluations(last, Split::kTest)) return {};
  check_evaluations_known(last);
  plan_of(last);  // refuses a run that does not tell its batch size
  return {{.segment = &last,
           .split = Split::kTest,
           .last = num_asked_samples(last.order, Split::kTest),
           .iteration = last_iteration(),
           .at_end = true}};
}

int64_t RunTimeline::end_of_samples(const RunSegment& segment, Split split) const {
  const int64_t num_asked = num_asked_samples(segment.order, split);
  if (split != Split::kTrain || segment.resumed.iteration == 0 || !segment.num_iterations)
    return num_asked;
  return std::max(num_asked, consumed_at(segment, *segment.num_iterations));
}

void RunTimeline::check_step(const LoggedStep& step) const {
  if (!segment_of(step.iteration).order.global_batch_size)
    return;  // it does not tell what iterations take
  const auto refuse = [&](const std::string& by_manifest) {
    throw std::runtime_error(fmt::format(
        "metrics.jsonl says that iteration {} took samples {} to {}, and run_manifest.json {}: the two "
        "files are not of one run; put the run's own files back, or start it once more if it was "
        "stopped while it was being resumed",
        step.iteration, step.first_sample(), step.consumed_samples, by_manifest));
  };
  try {
    const Stretch taken = of_iteration(step.iteration);
    if (taken.first == step.first_sample() && taken.last == step.consumed_samples) return;
    refuse(fmt::format("samples {} to {}", taken.first, taken.last));
  } catch (const UsageError& error) {
    refuse(error.what());
  }
}

}  // namespace weft
