#include "kernels/operations/qkv.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_groups(const char* operation, const Tensor& expanded, const Tensor& grouped) {
  const Checker check(operation);
  check.model_type("grouped", grouped);
  check.require(grouped.rank() == 5 && grouped.shape(3) >= 3,
                "grouped is " + text_of(grouped) + ", should be (B,T,G,R+2,D)");
  const int64_t num_heads = grouped.shape(2) * (grouped.shape(3) - 2);
  check.tensor("expanded", expanded, grouped.dtype(),
               {grouped.shape(0), grouped.shape(1), num_heads, 3, grouped.shape(4)});
}

Operation groups_operation(const char* name, const Tensor& grouped, const Tensor& expanded) {
  return {.name = name,
          .dimensions = "N G R D",
          .sizes = {grouped.shape(0) * grouped.shape(1), grouped.shape(2), grouped.shape(3) - 2,
                    grouped.shape(4)},
          .dtype = grouped.dtype(),
          .bytes = bytes_of({grouped, expanded})};
}

}  // namespace

void check(const Rotary& op) {
  const Checker checker("rotate");
  const Tensor &qkv = op.qkv, &angles = op.angles;
  checker.model_type("qkv", qkv);
  checker.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                  "qkv is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), D = qkv.shape(4);
  checker.require(angles.rank() == 3, "angles is " + text_of(angles) + ", should be (S,2,P)");
  checker.tensor("angles", angles, DType::kFloat32, {angles.shape(0), 2, angles.shape(2)});
  checker.require(angles.shape(0) >= T && 2 * angles.shape(2) <= D,
                  "angles is " + text_of(angles) + ", but qkv is " + text_of(qkv) +
                      ": should have a row for each position, and no more pairs than a head");
  if (op.document_bounds)
    checker.tensor("document_bounds", op.document_bounds, DType::kInt32, {B, T, 2});
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

void check(const ExpandGroups& op) { check_groups("expand_groups", op.expanded, op.grouped); }
Operation operation_of(const ExpandGroups& op) {
  return groups_operation("expand_groups", op.grouped, op.expanded);
}

void check(const SumGroups& op) { check_groups("sum_groups", op.expanded, op.grouped); }
Operation operation_of(const SumGroups& op) {
  return groups_operation("sum_groups", op.grouped, op.expanded);
}

}  // namespace weft
