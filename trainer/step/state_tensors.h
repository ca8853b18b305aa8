// The tensors of a rank's training state, as a checkpoint names them (training_state.h).
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/training_state.h"

namespace weft {

// The weights and their fp32 masters, where these are something else.
std::vector<StateTensor> weight_tensors(const ParameterTable& table, Tensor parameters,
                                        const Optimizer& optimizer);
void add_moments(const ParameterTable& table, const Optimizer& optimizer,
                 std::vector<StateTensor>& tensors);
// The scales and histories of delayed fp8 scaling.
void add_fp8_scaling(Model& model, int64_t num_chunks, std::vector<StateTensor>& tensors);

}  // namespace weft
