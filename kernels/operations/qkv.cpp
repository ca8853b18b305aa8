#include "kernels/operations/qkv.h"

#include <algorithm>

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

void check(const Rotary& op) {
  const Checker checker("rotate");
  const Tensor &qkv = op.qkv, &angles = op.angles;
  checker.model_type("qkv", qkv);
  checker.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                  "qkv is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), D = qkv.shape(4);
  checker.require(angles.rank() == 3, "angles is " + text_of(angles) + ", should be (S,2,P)");
  checker.tensor("angles", angles, DType::kFloat32, {angles.shape(0), 2, angles.shape(2)});
  checker.require(op.first_position >= 0 && angles.shape(0) >= op.first_position + T &&
                      2 * angles.shape(2) <= D,
                  "angles is " + text_of(angles) + ", but qkv is " + text_of(qkv) +
                      ": should have a row for each position, and no more pairs than a head");
  checker.offset(op.offset);
  const Tensor& bounds = op.document_bounds;
  if (!bounds) return;
  checker.rank("document_bounds", bounds, 3, "(B,first_position+T,2)");
  checker.tensor("document_bounds", bounds, DType::kInt32,
                 {B, std::max(bounds.shape(1), op.first_position + T), 2});
}

// The turned elements of queries and keys are read and written; of the angles those of a sequence
// are read.
Operation operation_of(const Rotary& op) {
  const Tensor& qkv = op.qkv;
  const int64_t T = qkv.shape(1), parts = qkv.shape(3), turned = 2 * op.angles.shape(2);
  const int64_t num_heads = qkv.shape(0) * T * qkv.shape(2) * (parts - 1);
  return {.name = "rotate",
          .dimensions = "heads elements",
          .sizes = {num_heads, turned},
          .dtype = qkv.dtype(),
          .bytes = 2 * product({num_heads, turned, size_bytes(qkv.dtype())}) +
                   product({T, turned, size_bytes(DType::kFloat32)}) +
                   bytes_of({op.document_bounds})};
}

}  // namespace weft
