// The memory and the threads of a run's data loaders, known before a dataset is opened.
#pragma once

#include <cstdint>
#include <string>

#include "indexed_dataset/order/samples/gpt_dataset.h"
#include "trainer/config/config.h"

namespace weft {

// The sizes of a loader's slots. Each holds the micro-batches of one rank from a global batch.
struct LoaderSlots {
  int64_t num_rows = 0;  // of the largest batch
  int64_t sequence_length = 0;
  bool has_mask = false, has_bounds = false;
  int64_t num_slots = 4;

  // The arrays are tokens, targets and perhaps the mask and the bounds, which are two of them.
  int64_t num_arrays() const { return 2 + (has_mask ? 1 : 0) + (has_bounds ? 2 : 0); }
  int64_t num_elements() const { return num_rows * sequence_length; }  // of one array
  // An element has 4 bytes.
  int64_t num_bytes() const { return num_slots * num_arrays() * num_elements() * 4; }
};

// Training has one loader, each group of validation and test has one, and all live at the same
// time.
struct LoaderPlan {
  int64_t num_loaders = 0;
  int64_t train_bytes = 0, valid_bytes = 0, test_bytes = 0;  // of pinned host memory

  int64_t num_bytes() const { return train_bytes + valid_bytes + test_bytes; }
  // Each loader has one more, which reads ahead.
  int64_t num_threads(int64_t num_workers) const { return num_loaders * (num_workers + 1); }
  // Returns a line for the log.
  std::string to_string() const;
};

// Plans the loaders of a rank that reads samples; pipeline stages between the first and the last
// need no slots. A test whose share of --split is 0 is planned, although the run leaves it out. A
// run that names no dataset yet is planned with one group each. Throws as resolve_data_paths().
LoaderPlan plan_loaders(const Config& config, int64_t largest_global_batch_size,
                        const DatasetTargetSizes& sizes);

}  // namespace weft
