#include "preprocess/inspect/lookup/run_readings.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "indexed_dataset/run_record/read_segments.h"
#include "indexed_dataset/run_record/sample_query.h"

namespace weft {
namespace {

// A stretch and what its samples are.
struct TakenStretch {
  const Stretch* stretch = nullptr;
  const TakenSamples* samples = nullptr;
};

// Stretches that take samples of one order.
struct SharedStretches {
  const BlendedDataset* dataset = nullptr;
  std::string group;
  std::vector<TakenStretch> stretches;
};

// Calls use(sample, part) for each piece of the wanted sequences in the samples of a stretch with a
// curriculum. `visits` are those of the order's samples.
template <typename Use>
void for_each_trained_piece(const TakenStretch& taken, const std::vector<Visit>& visits,
                            const SequencesByDataset& sequences, const Use& use) {
  const auto& [stretch, samples] = taken;
  std::map<std::string, std::set<int64_t>> wanted;
  for (const auto& [prefix, idxs] : sequences) wanted[prefix] = {idxs.begin(), idxs.end()};
  int64_t before = -1;
  for (const Visit& visit : visits) {
    if (visit.sample_idx == before) continue;
    before = visit.sample_idx;
    const std::set<int64_t>& of_dataset =
        wanted.at(samples->dataset().dataset(visit.dataset_idx).reader().prefix().string());
    for (int64_t i = samples->first_from(before, stretch->first, stretch->last);
         i < stretch->last && samples->row(i).sample == before; ++i) {
      for (const SamplePart& part : samples->parts(i)) {
        if (of_dataset.contains(part.sequence_idx)) use(i, visit.dataset_idx, part);
      }
    }
  }
}

// Calls `use` for each piece of any stretch that is of one of these sequences.
template <typename Use>
void for_each_taken_piece(const TakenStretch& taken, const std::vector<Visit>& visits,
                          const SequencesByDataset& sequences, const Use& use) {
  if (!taken.samples->are_whole()) return for_each_trained_piece(taken, visits, sequences, use);
  for (auto visit = std::lower_bound(
           visits.begin(), visits.end(), taken.stretch->first,
           [](const Visit&a, int64_t sample_idx) { return a.sample_idx < sample_idx; });
       visit != visits.end() && visit->sample_idx < taken.stretch->last; ++visit)
    use(visit->sample_idx, visit->dataset_idx, visit->part);
}

std::string sha256_of(const std::optional<UnseeFile>& unsee) { return unsee ? unsee->sha256 : ""; }

void add_readings(const SharedStretches& shared, const SequencesByDataset& sequences,
                  int num_threads, std::vector<Reading>& readings) {
  int64_t first = INT64_MAX, last = 0;  // of the order
  for (const auto& [stretch, samples] : shared.stretches) {
    first = std::min(first, samples->row(stretch->first).sample);
    last = std::max(last, samples->row(stretch->last - 1).sample + 1);
  }
  last = std::min(last, shared.dataset->end());  // --full-validation: groups differ in size
  const std::vector<Visit> visits =
      find_visits(*shared.dataset, sequences, first, last, num_threads);
  for (const TakenStretch& taken : shared.stretches) {
    const Stretch& stretch = *taken.stretch;
    PlaceFinder places(stretch);
    for_each_taken_piece(
        taken, visits, sequences,
        [&](int64_t sample_idx, int64_t dataset_idx, const SamplePart& part) {
          const DatasetReader& reader = shared.dataset->dataset(dataset_idx).reader();
          readings.push_back({.split = stretch.split,
                              .group = shared.group,
                              .place = places.place_of(sample_idx),
                              .sample_idx = sample_idx,
                              .prefix = reader.prefix().string(),
                              .part = part,
                              .is_unseen = taken.samples->is_unseen(sample_idx, part)});
        });
  }
}

}  // namespace

const TakenSamples* RunSamples::find(const RunSegment& segment, Split split,
                                     const std::string& group) {
  std::optional<CurriculumRows> rows;
  if (split == Split::kTrain) rows = curriculum_rows_of(segment);
  const Built* equal = nullptr;  // of the same order
  for (const Built& built : built_) {
    if (built.split != split || built.group != group) continue;
    const bool is_own = built.segment == &segment;
    if (!is_own && !have_equal_samples(*built.segment, segment, split)) continue;
    // The rows of two segments are different ones, as these begin at different iterations.
    const bool is_seen_alike =
        split != Split::kTrain || sha256_of(built.segment->unsee) == sha256_of(segment.unsee);
    if (is_own || !built.samples || (built.samples->are_whole() && !rows && is_seen_alike))
      return built.samples.get();
    equal = &built;
  }
  std::shared_ptr<const UnseenDocuments> unseen;  // evaluations mask nothing
  if (split == Split::kTrain) unseen = read_unseen_documents(segment);
  std::shared_ptr<const BlendedDataset> dataset;
  if (equal) {
    dataset = equal->samples->shared_dataset();
  } else {
    check_same_datasets(segment, split, group);
    GroupSamples built = build_group(segment.order, split, group);
    for (const std::string& note : built.notes) {
      if (tell_) tell_(note);
    }
    if (built.samples) dataset = std::make_shared<const BlendedDataset>(std::move(*built.samples));
  }
  built_.push_back(
      {.segment = &segment,
       .split = split,
       .group = group,
       .samples =
           dataset ? std::make_unique<TakenSamples>(dataset, std::move(rows), unseen) : nullptr});
  return built_.back().samples.get();
}

std::vector<Reading> find_readings(RunSamples& samples, const SequencesByDataset& sequences,
                                   Split split, int num_threads) {
  const std::vector<Stretch> stretches = samples.run().all(split);
  std::vector<SharedStretches> shared;
  for (const Stretch& stretch : stretches) {
    for (const Blend& blend : stretch.segment->order.blends.of(split)) {
      const TakenSamples* taken = samples.find(*stretch.segment, split, blend.name);
      if (!taken || stretch.first >= stretch.last) continue;
      const BlendedDataset* dataset = &taken->dataset();
      auto found = std::find_if(shared.begin(), shared.end(), [&](const SharedStretches& other) {
        return other.dataset == dataset;
      });
      if (found == shared.end())
        found =
            shared.insert(shared.end(), {.dataset = dataset, .group = blend.name, .stretches = {}});
      found->stretches.push_back({&stretch, taken});
    }
  }
  std::vector<Reading> readings;
  for (const SharedStretches& one : shared) add_readings(one, sequences, num_threads, readings);
  return readings;
}

}  // namespace weft
