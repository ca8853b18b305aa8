// Builds what a training run reads: every dataset's index, and the blends of train, validation and
// test. Each process does so by itself, and all get the same.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/on_progress.h"
#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/order/blends/index_report.h"
#include "indexed_dataset/order/blends/sample_order.h"

namespace weft {

// A group of validation or test datasets, or the only one, whose name is then empty.
struct NamedDataset {
  std::string name;
  BlendedDataset dataset;
};

struct TrainingDatasets {
  std::optional<BlendedDataset> train;
  std::vector<NamedDataset> valid, test;
  std::vector<std::shared_ptr<const DatasetReader>> readers;  // in the order of the prefixes

  std::vector<IndexReport> reports;
  std::string curriculum_summary = {};  // what training draws by, for a log

  // The first group; null if there is none.
  const BlendedDataset* first(Split split) const;
};

// Opens all datasets and builds each split of which samples are wanted; a test split without any
// share is left out, as Megatron does (--split 98,2,0). Throws UsageError when samples
// are wanted from a split that gets no sequence, and for weights that outrun a dataset: naming it,
// the samples that it would have to give and has, and what to change; and for weights with
// full_validation. std::runtime_error when its sequences hold no tokens; and as DatasetReader,
// build_gpt_index and open_curriculum do. Each index of a dataset is a step of `on_progress`.
TrainingDatasets build_training_datasets(const SampleOrder& order, const DatasetTargetSizes& sizes,
                                         const OnProgress& on_progress = {});

}  // namespace weft
