#include "preprocess/inspect/lookup/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace weft {

int64_t num_iterations_of(const RunSegment& segment) {
  if (segment.num_iterations) return *segment.num_iterations;
  if (segment.order.train_iters) return *segment.order.train_iters;
  return segment.resumed.iteration +
         batch_sizes_of(segment.order)
             .iterations_within(segment.order.train_samples.value_or(0), segment.resumed.samples);
}

std::string words_for_no_iteration(const std::vector<RunSegment>& segments, int64_t iteration) {
  const SampleOrder& order = segments.back().order;
  if (!order.global_batch_size) return "";
  const int64_t last = num_iterations_of(segments.back());
  if (iteration <= last) return "";
  return fmt::format(
      "iteration {} is asked for, but the run's last one is {}, by {}", iteration, last,
      order.train_iters ? fmt::format("--train-iters {}", *order.train_iters)
                        : fmt::format("--train-samples {}", order.train_samples.value_or(0)));
}

namespace {

// Returns the iterations of a segment, whole batches only.
Stretch training_of(const RunSegment& segment, const RunSegment* next) {
  Stretch stretch{.segment = &segment, .first = segment.resumed.samples};
  if (next) {
    stretch.last = next->resumed.samples;
  } else if (!segment.order.global_batch_size) {
    stretch.last = end_of_samples(segment, Split::kTrain);
  } else {
    const int64_t last = num_iterations_of(segment);
    stretch.last = last <= segment.resumed.iteration
                       ? stretch.first
                       : samples_of_iteration(segment.order, last, segment.resumed).second;
  }
  return stretch;
}

// Returns the validation that follows `iteration`.
Stretch validation_of(const RunSegment& segment, int64_t num_before, int64_t iteration) {
  const SegmentSamples samples = samples_of_validation(segment, num_before);
  return {.segment = &segment,
          .split = Split::kValid,
          .first = samples.first,
          .last = samples.last,
          .iteration = iteration};
}

// Returns the evaluation when training is done, which goes on after those before it.
Stretch last_evaluation(const RunSegment& segment, int64_t num_iterations) {
  const int64_t interval = segment.order.eval_interval;
  const int64_t num_before = num_iterations / interval - segment.resumed.iteration / interval +
                             (segment.makes_up_evaluation ? 1 : 0);
  Stretch stretch = validation_of(segment, num_before, num_iterations);
  stretch.at_end = true;
  return stretch;
}

// Segments may differ in their interval: the evaluations of each follow its own.
std::vector<Stretch> evaluations_of(const std::vector<RunSegment>& segments) {
  std::vector<Stretch> stretches;
  const auto add = [&](int64_t iteration) {
    const SegmentSamples samples = samples_of_evaluation(segments, iteration);
    stretches.push_back({.segment = samples.segment,
                         .split = Split::kValid,
                         .first = samples.first,
                         .last = samples.last,
                         .iteration = iteration});
  };
  for (size_t i = 0; i < segments.size(); ++i) {
    const RunSegment& segment = segments[i];
    const int64_t interval = segment.order.eval_interval;
    if (segment.order.eval_iters == 0 || segment.order.data.blends.of(Split::kValid).empty())
      continue;
    const bool is_last = i + 1 == segments.size();
    const int64_t end = is_last ? num_iterations_of(segment) : segments[i + 1].resumed.iteration;
    for (int64_t at = segment.resumed.iteration / interval * interval + interval; at <= end;
         at += interval) {
      // The next segment makes up for one that was cut short.
      const bool is_made_up = !is_last && at == end && segments[i + 1].makes_up_evaluation;
      if (!is_made_up) add(at);
    }
    if (segment.makes_up_evaluation)
      stretches.push_back(validation_of(segment, 0, segment.resumed.iteration));
    if (is_last) stretches.push_back(last_evaluation(segment, end));
  }
  std::stable_sort(stretches.begin(), stretches.end(),
                   [](const Stretch& a, const Stretch& b) { return a.iteration < b.iteration; });
  return stretches;
}

}  // namespace

std::optional<Stretch> find_last_evaluation(const std::vector<RunSegment>& segments) {
  const RunSegment& last = segments.back();
  if (last.order.eval_iters == 0 || last.order.data.blends.of(Split::kValid).empty())
    return std::nullopt;
  return last_evaluation(last, num_iterations_of(last));
}

std::vector<Stretch> stretches_of(const std::vector<RunSegment>& segments, Split split) {
  if (split == Split::kValid) return evaluations_of(segments);
  std::vector<Stretch> stretches;
  if (split == Split::kTest) {
    const RunSegment& last = segments.back();
    if (last.order.eval_iters == 0 || last.order.data.blends.of(split).empty()) return {};
    if (!last.order.global_batch_size)
      throw std::runtime_error("the run tells no global_batch_size");
    return {{.segment = &last,
             .split = split,
             .last = num_asked_samples(last.order, split),
             .iteration = num_iterations_of(last),
             .at_end = true}};
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const Stretch stretch =
        training_of(segments[i], i + 1 < segments.size() ? &segments[i + 1] : nullptr);
    if (stretch.first < stretch.last) stretches.push_back(stretch);
  }
  return stretches;
}

PlaceFinder::PlaceFinder(const Stretch& stretch) : stretch_(stretch) {
  const RunSegment& segment = *stretch.segment;
  is_known_ =
      segment.order.global_batch_size && (stretch.split == Split::kTrain || stretch.iteration > 0);
  if (!is_known_) return;
  if (stretch.split == Split::kTrain) {
    plan_ = batch_sizes_of(segment.order);
    iteration_ = segment.resumed.iteration;
    begin_ = end_ = segment.resumed.samples;
  } else {
    iteration_ = stretch.iteration;
    begin_ = stretch.first;
    end_ = stretch.last;
  }
}

SamplePlace PlaceFinder::place_of(int64_t sample_idx) {
  SamplePlace place;
  place.at_end = stretch_.at_end;
  if (!is_known_) return place;
  if (plan_ && sample_idx >= end_) {
    const int64_t num_between = plan_->iterations_within(sample_idx, end_);
    begin_ = plan_->consumed_after(num_between, end_).value();
    end_ = begin_ + plan_->batch_size(begin_);
    iteration_ += num_between + 1;
  }
  place.iteration = iteration_;
  const SampleOrder& order = stretch_.segment->order;
  if (order.micro_batch_size && order.data_parallel_size) {
    const int64_t batch = *order.micro_batch_size, unit = batch * *order.data_parallel_size;
    const int64_t at = sample_idx - begin_;
    place.slot = {.rank = at % unit / batch, .micro_batch = at / unit, .slot = at % batch};
  }
  return place;
}

}  // namespace weft
