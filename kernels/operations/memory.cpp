#include "kernels/operations/memory.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

void check(const Zero&) {}
Operation operation_of(const Zero& op) {
  return flat_operation("zero", op.out.num_elements(), op.out.dtype(), bytes_of({op.out}));
}

void check(const Cast& op) {
  const Checker checker("cast");
  const Tensor &dst = op.dst, &src = op.src;
  checker.model_type("src", src);
  checker.model_type("dst", dst);
  checker.require(src.dtype() == dst.dtype() || src.dtype() == DType::kFloat32 ||
                      dst.dtype() == DType::kFloat32,
                  "dst is " + text_of(dst) + " and src is " + text_of(src) + "; one must be fp32");
  checker.elements("dst", dst, dst.dtype(), src.num_elements());
}
Operation operation_of(const Cast& op) {
  return flat_operation("cast", op.dst.num_elements(), op.src.dtype(), bytes_of({op.dst, op.src}));
}

}  // namespace weft
