#include "kernels/operations/activation.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

Operation activation(const char* name, const Tensor& narrow, double bytes) {
  return {.name = name,
          .dimensions = "N F",
          .sizes = {num_rows(narrow), num_columns(narrow)},
          .dtype = narrow.dtype(),
          .bytes = bytes};
}

}  // namespace

void check(const ActivationForward& op) {
  const Checker checker("activation_forward");
  checker.model_type("out", op.out);
  checker.rank("out", op.out, 2, "(N,F)");
  checker.rows("pre", op.pre, op.out.dtype(), num_rows(op.out), num_columns(op.out));
}
Operation operation_of(const ActivationForward& op) {
  return activation(is_gelu(op.activation) ? "gelu_forward" : "relu_forward", op.out,
                    bytes_of({op.out, op.pre}));
}

void check(const GluForward& op) {
  const Checker checker("glu_forward");
  checker.model_type("out", op.out);
  checker.rank("out", op.out, 2, "(N,F)");
  checker.rows("pre", op.pre, op.out.dtype(), num_rows(op.out), 2 * num_columns(op.out));
}
Operation operation_of(const GluForward& op) {
  return activation("glu_forward", op.out, bytes_of({op.out, op.pre}));
}

void check(const GluBackward& op) {
  const Checker checker("glu_backward");
  checker.model_type("dout", op.dout);
  checker.rank("dout", op.dout, 2, "(N,F)");
  const int64_t N = num_rows(op.dout), F = num_columns(op.dout);
  checker.rows("pre", op.pre, op.dout.dtype(), N, 2 * F);
  checker.rows("dpre", op.dpre, op.dout.dtype(), N, 2 * F);
}
Operation operation_of(const GluBackward& op) {
  return activation("glu_backward", op.dout, bytes_of({op.dpre, op.dout, op.pre}));
}

}  // namespace weft
