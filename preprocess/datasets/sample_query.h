// Finds the samples of a training run by the options that decide the sample order, which are given
// by hand or read from the run's manifest.
#pragma once

#include <cstdint>
#include <filesystem>
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

// Reads DIR/run_manifest.json, which weft-train writes: {"arguments": {"data_path": ...,
// "seq_length": ..., ...}}. Throws std::runtime_error naming what is missing; std::system_error if
// the file cannot be read.
SampleOrder read_run_manifest(const std::filesystem::path& run_folder);

// Returns the samples [first, last) that iteration `iteration` (from 1) takes, with batch size
// ramp-up if there is one (Megatron-LM core/num_microbatches_calculator.py). Needs
// global_batch_size. Throws std::invalid_argument where they do not fit 64 bits.
std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration);

// Returns the most samples of `split` that the run takes.
int64_t num_asked_samples(const SampleOrder& order, Split split);

// Builds only the split that is asked for, with the number of samples that the run would ask for.
// Throws as build_gpt_datasets does; std::invalid_argument if the split has no samples.
GptDataset build_split(const SampleOrder& order, Split split);

}  // namespace weft
