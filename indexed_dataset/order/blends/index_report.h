// Tells how the index of a dataset, or of a blend, was had: built, or mapped from a cache.
#pragma once

#include <cstdint>
#include <string>

#include "indexed_dataset/order/samples/split.h"

namespace weft {

struct IndexReport {
  Split split = Split::kTrain;
  std::string name;        // the prefix of the dataset, or "blend"
  int64_t num_asked = -1;  // samples; -1: one epoch
  int64_t num_samples = 0, num_epochs = 0;
  bool is_kept = true;  // the program keeps this index in a cache
  bool was_cached = false;
  bool is_from_megatron = false;  // of those that were cached: Weft has not written it
  double seconds = 0;
};

}  // namespace weft
