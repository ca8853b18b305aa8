// Finds what else a run lost on the documents of a sample: the samples before and behind it that
// hold tokens of the same documents.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/losses/run_losses.h"

namespace weft {

// Other samples with tokens of a document whose losses the run has kept.
struct OtherVisits {
  int64_t num_samples = 0;
  double mean_loss = 0, largest_loss = 0;  // 0 without samples
};

class VisitLosses {
 public:
  // Looks up all documents of these samples of `taken` at once, in all parts of the run. Throws as
  // find_readings() and RunLosses::read().
  VisitLosses(RunSamples& samples, const RunLosses& losses, const TakenSamples& taken,
              const std::vector<int64_t>& sample_idxs, int num_threads);

  // Returns the visits of other samples than `sample_idx` to the document of one of its parts.
  OtherVisits of(int64_t sample_idx, const std::string& prefix, const SamplePart& part) const;

 private:
  DatasetNames names_;
  // By dataset and sequence: the losses by sample.
  std::map<std::pair<int64_t, int64_t>, std::map<int64_t, double>> losses_;
};

}  // namespace weft
