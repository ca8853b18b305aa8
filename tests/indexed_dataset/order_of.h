// The order of a run that is told by little more than its datasets.
#pragma once

#include <string>

#include "indexed_dataset/order/blends/sample_order.h"

namespace weft {

inline SampleOrder order_of(const DataPaths& paths, const std::string& split, int64_t seq_length) {
  SampleOrder order;
  order.blends = resolve_data_paths(paths);
  order.split = split;
  order.seq_length = seq_length;
  return order;
}

}  // namespace weft
