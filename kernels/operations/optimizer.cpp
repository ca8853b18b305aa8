#include "kernels/operations/optimizer.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_masters(const char* operation, const Tensor& param, const Tensor& remainder,
                   const Tensor& master) {
  const Checker check(operation);
  const int64_t n = param.num_elements();
  check.elements("param", param, DType::kBFloat16, n);
  check.whole_blocks("param", param);
  check.elements("remainder", remainder, DType::kUInt8, remainder_bytes(n));
  check.elements("master", master, DType::kFloat32, n);
}

Operation masters_operation(const char* name, const Tensor& param, const Tensor& remainder,
                            const Tensor& master) {
  return flat_operation(name, param.num_elements(), param.dtype(),
                        bytes_of({param, remainder, master}));
}

}  // namespace

void check(const ClipCoefficient& op) {
  const Checker checker("clip_coefficient");
  checker.elements("clip", op.clip, DType::kFloat32, 2);
  checker.elements("sum_of_squares", op.sum_of_squares, DType::kFloat32, 1);
}
Operation operation_of(const ClipCoefficient&) {
  return flat_operation("clip_coefficient", 1, DType::kFloat32, 3 * sizeof(float));
}

void check(const AdamW& op) {
  const Checker checker("adamw");
  checker.model_type("param", op.param);
  const int64_t n = op.param.num_elements();
  checker.whole_blocks("param", op.param);
  if (op.param.dtype() == DType::kBFloat16) {
    checker.elements("remainder", op.remainder, DType::kUInt8, remainder_bytes(n));
  } else {
    checker.elements("master", op.master, DType::kFloat32, n);
  }
  const bool is_rounded = op.m.dtype() == DType::kBFloat16;
  checker.elements("m", op.m, is_rounded ? DType::kBFloat16 : DType::kFloat32, n);
  checker.elements("v", op.v, op.m.dtype(), n);
  if (is_rounded)
    checker.elements("block_numbers", op.block_numbers, DType::kInt32, n / kOptimizerBlock);
  checker.elements("grad", op.grad, DType::kFloat32, n);
  checker.elements("decays", op.decays, DType::kUInt8, n / kOptimizerBlock);
  checker.elements("clip", op.clip, DType::kFloat32, 2);
  checker.require(op.step >= 1,
                  "step is " + std::to_string(op.step) + "; the first update is step 1");
}
// Master, moments and the weights of fp32 models are read and written; the weights of others are
// written alone.
Operation operation_of(const AdamW& op) {
  const bool is_own_master = op.master.data() == op.param.data();
  // The update reads the masters of fp16 weights, and not the weights.
  const bool reads_param = op.remainder || is_own_master;
  const Tensor master = is_own_master ? Tensor{} : op.master;
  return flat_operation("adamw", op.param.num_elements(), op.param.dtype(),
                        2 * bytes_of({master, op.remainder, op.m, op.v}) +
                            (reads_param ? 2 : 1) * bytes_of({op.param}) +
                            bytes_of({op.grad, op.decays, op.block_numbers}));
}

void check(const SplitMasters& op) {
  check_masters("split_masters", op.param, op.remainder, op.master);
}
Operation operation_of(const SplitMasters& op) {
  return masters_operation("split_masters", op.param, op.remainder, op.master);
}

void check(const JoinMasters& op) {
  check_masters("join_masters", op.param, op.remainder, op.master);
}
Operation operation_of(const JoinMasters& op) {
  return masters_operation("join_masters", op.param, op.remainder, op.master);
}

}  // namespace weft
