// Reads what decides a run's samples from its manifest, or from the arguments of another program's
// run.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "indexed_dataset/order/blends/sample_order.h"

namespace weft {

// The order of "arguments" in a run manifest, or of a file that has them alone, in which Megatron's
// defaults stand for what is not told. Paths are absolute if the file tells the run's working
// directory. Caches of indexes are mapped if their folder is there, and never written. Throws a
// JSON exception or std::runtime_error for what is missing.
SampleOrder sample_order_from(const nlohmann::ordered_json& manifest);

}  // namespace weft
