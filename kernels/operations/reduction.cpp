#include "kernels/operations/reduction.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_sum(const char* operation, const Tensor& out, const Tensor& inp) {
  const Checker check(operation);
  check.elements("inp", inp, DType::kFloat32, inp.num_elements());
  check.elements("out", out, DType::kFloat32, 1);
}

// It reads `inp` and leaves a few sums.
Operation sum_operation(const char* name, const Tensor& inp) {
  return flat_operation(name, inp.num_elements(), inp.dtype(), bytes_of({inp}));
}

}  // namespace

void check(const Sum& op) { check_sum("sum", op.out, op.inp); }
Operation operation_of(const Sum& op) { return sum_operation("sum", op.inp); }

void check(const SumOfSquares& op) { check_sum("sum_of_squares", op.out, op.inp); }
Operation operation_of(const SumOfSquares& op) { return sum_operation("sum_of_squares", op.inp); }

void check(const SquaredError& op) {
  const Checker checker("squared_error");
  checker.model_type("value", op.value);
  checker.elements("reference", op.reference, op.value.dtype(), op.value.num_elements());
  checker.elements("out", op.out, DType::kFloat32, 2);
}
Operation operation_of(const SquaredError& op) {
  return flat_operation("squared_error", op.value.num_elements(), op.value.dtype(),
                        bytes_of({op.value, op.reference}));
}

}  // namespace weft
