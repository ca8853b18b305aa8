// The model that a checkpoint's tensors belong to, as names and values that can be compared.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"

namespace weft {

// The architecture fields of `shape`, and a shape from them (micro-batch, dropout, seed and type
// are not among them). shape_from throws std::runtime_error for a field that is absent or no
// number.
std::map<std::string, std::string> architecture_of(const ModelShape& shape);
ModelShape shape_from(const std::map<std::string, std::string>& architecture);
// One sentence per field in which a checkpoint and this run differ; empty: they fit.
std::vector<std::string> architecture_differences(
    const std::map<std::string, std::string>& checkpoint,
    const std::map<std::string, std::string>& run);

}  // namespace weft
