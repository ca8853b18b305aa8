// Finds the samples of a training run by the options that decide the sample order, which are given
// by hand or read from the run's manifest (run_segments.h).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/samples/gpt_dataset.h"

namespace weft {

// The options have Megatron's names and defaults; a value that differs from the training run's
// gives other samples.
struct SampleOrder {
  std::string data_path;
  std::string split = "969,30,1";
  std::optional<int64_t> seq_length;
  int64_t seed = 1234;
  std::optional<int64_t> train_samples, train_iters;
  int64_t eval_iters = 100, eval_interval = 1000;
  std::optional<int64_t> global_batch_size;
  std::vector<int64_t> rampup_batch_size;  // start, increment, samples; or empty
  // The numbers of samples that the run asked for, if its manifest has them; else they follow from
  // the values above.
  std::optional<DatasetTargetSizes> asked_samples;
  std::string vocab_file, merge_file;
};

// The order of "arguments" in a run manifest, or of a file that has them alone. Throws a JSON
// exception or std::runtime_error for what is missing.
SampleOrder sample_order_from(const nlohmann::ordered_json& manifest);

// A run that was resumed counts iterations and samples from there on.
struct Resumption {
  int64_t iteration = 0, samples = 0;
};

// Returns the samples [first, last) that iteration `iteration` (from resumed.iteration + 1) takes,
// with batch size ramp-up if there is one (Megatron-LM core/num_microbatches_calculator.py). Needs
// global_batch_size. Throws std::invalid_argument where they do not fit 64 bits.
std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration,
                                                 const Resumption& resumed = {});

// Returns the most samples of `split` that the run takes.
int64_t num_asked_samples(const SampleOrder& order, Split split);

// Builds only the split that is asked for, with the number of samples that the run would ask for.
// Throws as build_gpt_datasets does; std::invalid_argument if the split has no samples.
GptDataset build_split(const SampleOrder& order, Split split);

}  // namespace weft
