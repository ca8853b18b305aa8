// What a training step changes and a checkpoint stores: tensors on the device and counters on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace weft {

// What a checkpoint stores of one tensor and where it lies on the device.
struct StateTensor {
  std::string name;  // "model/NAME" (x), "optimizer/master/NAME" (bf16 models only),
                     // "optimizer/exp_avg/NAME", "optimizer/exp_avg_sq/NAME" (fp32)
  std::vector<int64_t> global_shape;
  int split_dim = -1;
  int64_t begin = 0, end = 0;
  Tensor tensor;  // device memory, the slice's shape flattened to (num_elements)
};

// The numbers beside the tensors. Learning rate, data position and dropout follow from them.
struct ScalarState {
  int64_t iteration = 0;         // finished steps; keys dropout of the next one
  int64_t consumed_samples = 0;  // of all data-parallel ranks together
  int64_t adam_step = 0;         // updates done (bias correction)
};

}  // namespace weft
