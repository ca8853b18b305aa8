// Counts what a run has seen of its training data: tokens of each dataset, of each file of the
// corpus, and of each document. A sample counts with its inputs, sequence_length of its tokens: the
// last one is a label only, and the first input of the next sample. With a curriculum its trained
// inputs count.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/inspect/lookup/run_readings.h"

namespace weft {

// Returns the parts of a stretch of training whose iterations trained: all but those of
// --iterations-to-skip and --skip-train-iteration-range.
std::vector<Stretch> trained_parts(const Stretch& stretch);

struct DatasetExposure {
  int64_t num_samples = 0, num_tokens = 0;
  int64_t num_masked_tokens = 0;     // of these, those without loss (--unsee)
  int64_t num_tokens_per_epoch = 0;  // of what --split or the blend's shares give to training

  double epochs() const {
    return num_tokens_per_epoch == 0
               ? 0
               : static_cast<double>(num_tokens) / static_cast<double>(num_tokens_per_epoch);
  }
};

// By the prefix of the dataset; where the run spells it in several ways, by the first one. Reads a
// blend's index once, and with --unsee looks at every sample; datasets that gave nothing stand
// there with 0.
std::map<std::string, DatasetExposure> exposure_of_datasets(RunSamples& samples,
                                                            const std::vector<Stretch>& stretches,
                                                            int num_threads);

// The tokens of each sequence of a dataset, 8 bytes each.
struct SequenceExposure {
  std::shared_ptr<const DatasetReader> reader;
  std::vector<int64_t> num_tokens;
  std::vector<int64_t> num_masked_tokens;  // of these, those without loss; empty without --unsee
  // The sequences that training draws from: several ranges where a blend has several shares of one
  // prefix, or a run was resumed with another --split.
  std::vector<SequenceRange> drawn;
};

// By the prefix of the dataset as above. Looks at every sample, on several threads.
std::map<std::string, SequenceExposure> exposure_of_sequences(RunSamples& samples,
                                                              const std::vector<Stretch>& stretches,
                                                              int num_threads);

}  // namespace weft
