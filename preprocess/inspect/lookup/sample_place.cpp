#include "preprocess/inspect/lookup/sample_place.h"

#include <algorithm>

#include "indexed_dataset/run_record/sample_query.h"

namespace weft {

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
  place.is_untrained =
      stretch_.split == Split::kTrain &&
      std::ranges::any_of(stretch_.segment->untrained_iterations, [this](const auto& range) {
        return range.first <= iteration_ && iteration_ <= range.second;
      });
  const SampleOrder& order = stretch_.segment->order;
  if (order.micro_batch_size > 0 && order.data_parallel_size) {
    const int64_t batch = order.micro_batch_size, unit = batch * *order.data_parallel_size;
    const int64_t at = sample_idx - begin_;
    place.slot = {.rank = at % unit / batch, .micro_batch = at / unit, .slot = at % batch};
  }
  return place;
}

}  // namespace weft
