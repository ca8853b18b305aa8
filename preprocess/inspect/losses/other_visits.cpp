#include "preprocess/inspect/losses/other_visits.h"

#include <algorithm>
#include <optional>

namespace weft {

VisitLosses::VisitLosses(RunSamples& samples, const RunLosses& losses, const TakenSamples& taken,
                         const std::vector<int64_t>& sample_idxs, int num_threads)
    : names_(dataset_names_of(samples.run().segments())) {
  SequencesByDataset sequences;
  for (const int64_t sample_idx : sample_idxs) {
    const std::string prefix = taken.reader(sample_idx).prefix().string();
    for (const SamplePart& part : taken.parts(sample_idx)) {
      for (const std::string& spelling : names_.spellings(names_.idx_of(prefix)))
        sequences[spelling].push_back(part.sequence_idx);
    }
  }
  for (const Reading& reading : find_readings(samples, sequences, Split::kTrain, num_threads)) {
    // Samples that the run has not taken yet have no loss.
    const auto loss = losses.read(reading.sample_idx, reading.sample_idx + 1).front();
    if (!loss) continue;
    losses_[{names_.idx_of(reading.prefix), reading.part.sequence_idx}][reading.sample_idx] =
        static_cast<double>(loss->loss);
  }
}

OtherVisits VisitLosses::of(int64_t sample_idx, const std::string& prefix,
                            const SamplePart& part) const {
  OtherVisits visits;
  const auto found = losses_.find({names_.idx_of(prefix), part.sequence_idx});
  if (found == losses_.end()) return visits;
  for (const auto& [other, loss] : found->second) {
    if (other == sample_idx) continue;
    ++visits.num_samples;
    visits.mean_loss += loss;
    visits.largest_loss = std::max(visits.largest_loss, loss);
  }
  if (visits.num_samples > 0) visits.mean_loss /= static_cast<double>(visits.num_samples);
  return visits;
}

}  // namespace weft
