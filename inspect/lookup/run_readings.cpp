#include "inspect/lookup/run_readings.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

// Stretches that take samples of one BlendedDataset.
struct SharedStretches {
  const BlendedDataset* samples = nullptr;
  std::string group;
  std::vector<const Stretch*> stretches;
};

void add_readings(const SharedStretches& shared, const SequencesByDataset& sequences,
                  int num_threads, std::vector<Reading>& readings) {
  int64_t first = INT64_MAX, last = 0;
  for (const Stretch* stretch : shared.stretches) {
    first = std::min(first, stretch->first);
    last = std::max(last, stretch->last);
  }
  const std::vector<Visit> visits =
      find_visits(*shared.samples, sequences, first, last, num_threads);
  for (const Stretch* stretch : shared.stretches) {
    PlaceFinder places(*stretch);
    for (auto visit = std::lower_bound(
             visits.begin(), visits.end(), stretch->first,
             [](const Visit&a, int64_t sample_idx) { return a.sample_idx < sample_idx; });
         visit != visits.end() && visit->sample_idx < stretch->last; ++visit) {
      const DatasetReader& reader = shared.samples->dataset(visit->dataset_idx).reader();
      readings.push_back({.split = stretch->split,
                          .group = shared.group,
                          .at_end = stretch->at_end,
                          .place = places.place_of(visit->sample_idx),
                          .sample_idx = visit->sample_idx,
                          .prefix = reader.prefix().string(),
                          .part = visit->part});
    }
  }
}

}  // namespace

const BlendedDataset* RunSamples::find(const RunSegment& segment, Split split,
                                       const std::string& group) {
  for (const Built& built : built_) {
    if (built.split == split && built.group == group &&
        (built.segment == &segment || have_equal_samples(*built.segment, segment, split)))
      return built.samples.get();
  }
  check_same_datasets(segment, split, group);
  auto samples = find_samples_of_group(segment.order, split, group);
  built_.push_back(
      {.segment = &segment,
       .split = split,
       .group = group,
       .samples = samples ? std::make_unique<BlendedDataset>(std::move(*samples)) : nullptr});
  return built_.back().samples.get();
}

std::vector<Reading> find_readings(RunSamples& samples, const SequencesByDataset& sequences,
                                   Split split, const std::optional<std::string>& group,
                                   int num_threads) {
  const std::vector<Stretch> stretches = stretches_of(samples.segments(), split);
  std::vector<SharedStretches> shared;
  for (const Stretch& stretch : stretches) {
    for (const Blend& blend : stretch.segment->order.data.blends.of(split)) {
      if (group && blend.name != *group) continue;
      const BlendedDataset* dataset = samples.find(*stretch.segment, split, blend.name);
      if (!dataset) continue;
      auto found = std::find_if(shared.begin(), shared.end(), [&](const SharedStretches& other) {
        return other.samples == dataset;
      });
      if (found == shared.end())
        found =
            shared.insert(shared.end(), {.samples = dataset, .group = blend.name, .stretches = {}});
      found->stretches.push_back(&stretch);
    }
  }
  std::vector<Reading> readings;
  for (const SharedStretches& one : shared) add_readings(one, sequences, num_threads, readings);
  return readings;
}

}  // namespace weft
