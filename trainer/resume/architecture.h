// The architecture of a model as names and values, so that a checkpoint's can be compared with a
// run's.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"

namespace weft {

// architecture_of() returns the architecture of `shape`; micro-batch, dropout, seed and type are
// not part of it. shape_from() is its inverse and throws std::runtime_error for a field that is
// absent, no number, or out of range.
std::map<std::string, std::string> architecture_of(const ModelShape& shape);
ModelShape shape_from(const std::map<std::string, std::string>& architecture);
// Returns one sentence per field in which a checkpoint and this run differ.
std::vector<std::string> architecture_differences(
    const std::map<std::string, std::string>& checkpoint,
    const std::map<std::string, std::string>& run);

}  // namespace weft
