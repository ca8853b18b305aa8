// Checks of sums over flat ranges, and of AdamW.
#include "kernels/checks/check_shapes.h"
#include "kernels/checks/checker.h"
#include "kernels/split_master.h"

namespace weft {

void check_squared_error(const Tensor& out, const Tensor& value, const Tensor& reference) {
  const Checker check("squared_error");
  check.model_type("value", value);
  check.elements("reference", reference, value.dtype(), value.num_elements());
  check.elements("out", out, DType::kFloat32, 2);
}

void check_sum(const char* operation, const Tensor& out, const Tensor& inp) {
  const Checker check(operation);
  check.elements("inp", inp, DType::kFloat32, inp.num_elements());
  check.elements("out", out, DType::kFloat32, 1);
}

void check_clip_coefficient(const Tensor& clip, const Tensor& sum_of_squares) {
  const Checker check("clip_coefficient");
  check.elements("clip", clip, DType::kFloat32, 2);
  check.elements("sum_of_squares", sum_of_squares, DType::kFloat32, 1);
}

void check_adamw(const AdamW& args) {
  const Checker check("adamw");
  check.model_type("param", args.param);
  const int64_t n = args.param.num_elements();
  check.whole_blocks("param", args.param);
  if (args.param.dtype() == DType::kBFloat16) {
    check.elements("remainder", args.remainder, DType::kUInt8, remainder_bytes(n));
  } else {
    check.elements("master", args.master, DType::kFloat32, n);
  }
  const bool is_rounded = args.m.dtype() == DType::kBFloat16;
  check.elements("m", args.m, is_rounded ? DType::kBFloat16 : DType::kFloat32, n);
  check.elements("v", args.v, args.m.dtype(), n);
  if (is_rounded)
    check.elements("block_numbers", args.block_numbers, DType::kInt32, n / kOptimizerBlock);
  check.elements("grad", args.grad, DType::kFloat32, n);
  check.elements("decays", args.decays, DType::kUInt8, n / kOptimizerBlock);
  check.elements("clip", args.clip, DType::kFloat32, 2);
  check.require(args.step >= 1,
                "step is " + std::to_string(args.step) + "; the first update is step 1");
}

void check_masters(const char* operation, const Tensor& param, const Tensor& remainder,
                   const Tensor& master) {
  const Checker check(operation);
  const int64_t n = param.num_elements();
  check.elements("param", param, DType::kBFloat16, n);
  check.whole_blocks("param", param);
  check.elements("remainder", remainder, DType::kUInt8, remainder_bytes(n));
  check.elements("master", master, DType::kFloat32, n);
}

}  // namespace weft
