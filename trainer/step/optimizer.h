// AdamW over the flat arenas. The gradient norm and the clip factor stay on the device.
// [Loshchilov & Hutter 2019, arXiv:1711.05101; Megatron-LM megatron/core/optimizer]
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/communicator.h"

namespace weft {

struct OptimizerOptions {
  float beta1 = 0.9F, beta2 = 0.999F, eps = 1e-8F, weight_decay = 0.01F;
  float clip_grad = 1.0F;  // limit of the global L2 norm; 0 clips nothing but reports the norm
};

class Optimizer {
 public:
  // Plans the optimizer's state. For fp32 models the master copies are the parameters themselves.
  Optimizer(Backend& backend, Communicator& tensor_parallel, const ParameterTable& table,
            DType dtype, const OptimizerOptions& options, MemoryPlan& plan);
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Takes the arenas and uploads the decay flags. Call it after plan.allocate().
  void bind(Tensor parameters, Tensor gradients);

  // norm_and_clip (2) fp32, on the device, gets the norm over all ranks' gradients and the factor
  // that clips it.
  void gradient_norm(Tensor norm_and_clip);
  // Enqueues update number `step`, 1 for the first. It does not wait.
  void update(Tensor norm_and_clip, double learning_rate, int64_t step);
  // sum_of_squares (1) fp32, on the device, gets the sum over all parameters in fp32.
  void parameters_sum_of_squares(Tensor sum_of_squares);

  Tensor master() const { return master_; }  // fp32 arenas
  Tensor exp_avg() const { return exp_avg_; }
  Tensor exp_avg_sq() const { return exp_avg_sq_; }
  bool has_master() const { return dtype_ != DType::kFloat32; }

 private:
  void sum_of_squares(Tensor out, Tensor arena);

  Backend& backend_;
  Communicator& tensor_parallel_;
  const ParameterTable& table_;
  DType dtype_;
  OptimizerOptions options_;
  // The arena ranges (first element, count) that this rank counts in norms. Replicated parameters
  // count on rank 0 only.
  std::vector<std::pair<int64_t, int64_t>> counted_ranges_;
  Tensor parameters_, gradients_;                  // owned by the trainer
  Tensor master_, exp_avg_, exp_avg_sq_, decays_;  // decays: uint8 per block
  Tensor range_sums_, sum_;                        // (ranges), (1)
};

}  // namespace weft
