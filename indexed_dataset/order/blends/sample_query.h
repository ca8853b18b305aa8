// Finds the samples of a training run by the options that decide the sample order, which are given
// by hand or read from the run's manifest (manifest_order.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/batches/length_curriculum.h"
#include "indexed_dataset/order/blends/build_datasets.h"

namespace weft {

// The options have Megatron's names and defaults; a value that differs from the training run's
// gives other samples.
struct SampleOrder {
  DatasetOptions data;
  std::optional<int64_t> train_samples, train_iters;
  int64_t eval_iters = 100, eval_interval = 1000;
  std::optional<int64_t> global_batch_size;
  std::vector<int64_t> rampup_batch_size;  // start, increment, samples; or empty
  std::string step_batch_size_schedule;
  // Which rank takes which of an iteration's samples follows from these, where they are told.
  std::optional<int64_t> micro_batch_size, data_parallel_size;
  // With a schedule_type the samples of training are rows of it (samples/curriculum_rows.h).
  CurriculumOptions curriculum;
  // The numbers of samples that the run asked for, if its manifest has them; else they follow from
  // the values above.
  std::optional<DatasetTargetSizes> asked_samples;
};

// A run that was resumed counts iterations, samples and tokens from there on.
struct Resumption {
  int64_t iteration = 0, samples = 0;
  std::optional<int64_t> tokens = 0;  // manifests of older versions do not tell them
};

// Returns the batch sizes of the run. Throws std::runtime_error if it tells no global_batch_size.
BatchSizePlan batch_sizes_of(const SampleOrder& order);

// Returns how many samples the run asks for: Megatron's rule (dataset_target_sizes()) with batch sizes that
// change if they do. Throws as that one does, and std::runtime_error without a global_batch_size where
// evaluations need it.
DatasetTargetSizes target_sizes_of(const SampleOrder& order, int64_t eval_iters);

// Returns the samples [first, last) that iteration `iteration` (from resumed.iteration + 1) takes,
// with batch sizes that change if they do (Megatron-LM core/num_microbatches_calculator.py). Needs
// global_batch_size. Throws std::invalid_argument where they do not fit 64 bits.
std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration,
                                                 const Resumption& resumed = {});

// Returns the most samples of `split` that the run takes.
int64_t num_asked_samples(const SampleOrder& order, Split split);

// Returns the group of this name; "" is the only one that there is. Throws std::invalid_argument that
// names all groups if there is none, or if "" could be several.
const Blend& find_group(const SplitBlends& blends, Split split, const std::string& name);

// Builds only the datasets of this group, as the training run does. Returns nothing for a test split
// that gets no share. Throws as build_training_datasets() does, and std::runtime_error where index
// caches of Megatron are there for other numbers of samples, or for some of the datasets only.
std::optional<BlendedDataset> find_samples_of_group(const SampleOrder& order, Split split,
                                                    const std::string& group);
// The same; throws std::invalid_argument if the split has no samples.
BlendedDataset build_group(const SampleOrder& order, Split split, const std::string& group);

}  // namespace weft
