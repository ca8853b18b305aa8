// In what the training data of two runs differs: from which iteration on, in which samples, and by which
// argument or dataset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/inspect/lookup/run_readings.h"

namespace weft {

// An iteration that took other samples in the second run.
struct DifferentIteration {
  int64_t iteration = 0;
  int64_t num_different = 0, num_samples = 0;  // num_samples: those of the larger batch
  int64_t slot_idx = 0;               // the first sample that differs, counted in the batch
  std::optional<int64_t> samples[2];  // its number in each run; nothing where one has none
};

struct RunDifference {
  int64_t first_iteration = 0, last_iteration = 0;  // those that were compared
  int64_t num_samples = 0, num_different_samples = 0, num_different_iterations = 0;
  std::vector<DifferentIteration> iterations;  // the first ones
  // "--seed: 1234 and 1235": all that decides the samples and differs where the first difference is; and
  // where there is none, but arguments differ, what did not matter so far.
  std::vector<std::string> reasons;
};

// Compares iterations [first, last], or as far as both runs' arguments go, trained or not. Two
// samples are equal if they hold the same tokens of the same sequences, or equal tokens; and as many
// of them are repeated, and the same ones unseen. Keeps the first `num_kept` iterations that differ.
// Throws as samples_of_iteration() and RunSamples.
RunDifference compare_runs(RunSamples& a, RunSamples& b, int64_t first, int64_t last,
                           int64_t num_kept, int num_threads);

}  // namespace weft
