// All times at which a run takes documents, with iteration and rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/inspect/lookup/document_visits.h"
#include "preprocess/inspect/lookup/taken_samples.h"
#include "preprocess/inspect/lookup/timeline.h"

namespace weft {

// The samples of a run's parts. Orders are built once: parts that a run was resumed in mostly read the
// same.
class RunSamples {
 public:
  // `segments` must outlive it.
  explicit RunSamples(const std::vector<RunSegment>& segments) : segments_(segments) {}

  // Builds or finds the samples of a split's group as this segment reads them; null for a test split
  // that gets no share. Throws as build_group() and curriculum_rows_of(), and std::runtime_error if a
  // dataset is not the one that the segment has read.
  const TakenSamples* find(const RunSegment& segment, Split split, const std::string& group);
  const std::vector<RunSegment>& segments() const { return segments_; }

 private:
  struct Built {
    const RunSegment* segment = nullptr;
    Split split = Split::kTrain;
    std::string group;
    std::unique_ptr<TakenSamples> samples;
  };
  const std::vector<RunSegment>& segments_;
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

// Returns every reading of these sequences in the iterations and evaluations of a split: of all its groups,
// or of the one that is named; in the order of the samples of each part of the run. Throws as
// stretches_of() and RunSamples.
std::vector<Reading> find_readings(RunSamples& samples, const SequencesByDataset& sequences,
                                   Split split, const std::optional<std::string>& group,
                                   int num_threads);

}  // namespace weft
