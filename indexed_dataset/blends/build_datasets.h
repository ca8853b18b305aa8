// Builds what a training run reads: every dataset's index, and the blends of train, validation and
// test. Each process does so by itself, and all get the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/blends/blend_sizes.h"
#include "indexed_dataset/blends/blended_dataset.h"
#include "indexed_dataset/blends/data_paths.h"

namespace weft {

struct DatasetOptions {
  SplitBlends blends;
  std::string split = "969,30,1";
  OrderKind order = OrderKind::kCore;
  int64_t sequence_length = 0;
  int64_t seed = 1234;
  double surplus = kDefaultSurplus;
  int num_threads = 0;  // datasets of a blend are built in parallel; 0: as many as there are cores
};

// A group of validation or test datasets, or the only one, whose name is then empty.
struct NamedDataset {
  std::string name;
  BlendedDataset dataset;
};

struct TrainingDatasets {
  std::optional<BlendedDataset> train;
  std::vector<NamedDataset> valid, test;
  std::vector<std::shared_ptr<const DatasetReader>> readers;  // in the order of the prefixes

  // The first group; null if there is none.
  const BlendedDataset* first(Split split) const;
};

// Opens all datasets and builds each split of which samples are wanted; a test split without any
// share is left out, as Megatron does (--split 98,2,0). Throws std::invalid_argument when samples are
// wanted from a split that gets no sequence, and for weights that outrun a dataset: naming it, the
// samples that it would have to give and has, and what to change. std::runtime_error when its
// sequences hold no tokens; and as DatasetReader and build_gpt_index do.
TrainingDatasets build_training_datasets(const DatasetOptions& options,
                                         const DatasetTargetSizes& sizes);

}  // namespace weft
