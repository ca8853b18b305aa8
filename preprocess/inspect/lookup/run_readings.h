// All times at which a run takes documents, with iteration and rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/inspect/lookup/document_visits.h"
#include "preprocess/inspect/lookup/sample_place.h"
#include "preprocess/inspect/lookup/taken_samples.h"

namespace weft {

// The samples of a run's parts. Orders are built once: parts that a run was resumed in mostly read
// the same.
class RunSamples {
 public:
  // `run` must outlive it. `tell` gets words for people on where indexes come from.
  explicit RunSamples(const RunTimeline& run, std::function<void(const std::string&)> tell = {})
      : run_(run), tell_(std::move(tell)) {}

  // Builds or finds the samples of a split's group as this segment reads them; null for a test
  // split that gets no share. Throws as build_group() and curriculum_rows_of(), and
  // std::runtime_error if a dataset is not the one that the segment has read.
  const TakenSamples* find(const RunSegment& segment, Split split, const std::string& group);
  const RunTimeline& run() const { return run_; }

 private:
  struct Built {
    const RunSegment* segment = nullptr;
    Split split = Split::kTrain;
    std::string group;
    std::unique_ptr<TakenSamples> samples;
  };
  const RunTimeline& run_;
  std::function<void(const std::string&)> tell_;
  std::vector<Built> built_;
};

struct Reading {
  Split split = Split::kTrain;
  std::string group;  // of validation or test
  SamplePlace place;
  int64_t sample_idx = 0;
  std::string prefix;  // of the dataset
  SamplePart part;
  bool is_unseen = false;  // it had no loss (--unsee)
};

// Returns every reading of these sequences in the iterations and evaluations of all groups of a
// split, in the order of the samples of each part of the run. Throws as RunTimeline::all() and
// RunSamples.
std::vector<Reading> find_readings(RunSamples& samples, const SequencesByDataset& sequences,
                                   Split split, int num_threads);

}  // namespace weft
