#include "kernels/operations/qkv.h"

#include <algorithm>
#include <string>

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_packed(const Checker& check, const char* name, const Tensor& qkv) {
  check.model_type(name, qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                std::string(name) + " is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
}

void check_kept(const Checker& check, const Tensor& kept, const Tensor& qkv) {
  check.tensor("kept", kept, qkv.dtype(),
               {qkv.shape(0), qkv.shape(1), qkv.shape(2), qkv.shape(3) - 1, qkv.shape(4)});
}

void check_weights(const Checker& check, const char* name, const QkNormWeights& weights,
                   DType dtype, int64_t D) {
  const std::string of = name;
  check.tensor((of + ".q").c_str(), weights.q, dtype, {D});
  check.tensor((of + ".k").c_str(), weights.k, dtype, {D});
  if (!weights.q_bias && !weights.k_bias) return;
  check.tensor((of + ".q_bias").c_str(), weights.q_bias, dtype, {D});
  check.tensor((of + ".k_bias").c_str(), weights.k_bias, dtype, {D});
}

// Queries and keys are read and written `num_passes` times in all.
Operation qk_norm(const char* name, const Tensor& qkv, int num_passes) {
  const int64_t parts = qkv.shape(3), D = qkv.shape(4);
  const int64_t num_heads = qkv.shape(0) * qkv.shape(1) * qkv.shape(2) * (parts - 1);
  return {.name = name,
          .dimensions = "heads elements",
          .sizes = {num_heads, D},
          .dtype = qkv.dtype(),
          .bytes = num_passes * product({num_heads, D, size_bytes(qkv.dtype())})};
}

}  // namespace

void check(const Rotary& op) {
  const Checker checker("rotate");
  const Tensor &qkv = op.qkv, &angles = op.angles;
  check_packed(checker, "qkv", qkv);
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

void check(const QkNormForward& op) {
  const Checker checker("qk_norm_forward");
  check_packed(checker, "qkv", op.qkv);
  if (op.kept) check_kept(checker, op.kept, op.qkv);
  check_weights(checker, "weights", op.weights, op.qkv.dtype(), op.qkv.shape(4));
}
Operation operation_of(const QkNormForward& op) {
  return qk_norm("qk_norm_forward", op.qkv, op.kept ? 3 : 2);
}

void check(const QkNormBackward& op) {
  const Checker checker("qk_norm_backward");
  check_packed(checker, "dqkv", op.dqkv);
  const int64_t D = op.dqkv.shape(4);
  check_kept(checker, op.kept, op.dqkv);
  check_weights(checker, "weights", op.weights, op.dqkv.dtype(), D);
  check_weights(checker, "gradients", op.gradients, DType::kFloat32, D);
  checker.require(op.weights.q_bias.empty() == op.gradients.q_bias.empty(),
                  "the norm has a bias, and its gradient is empty, or the other way round");
}
Operation operation_of(const QkNormBackward& op) { return qk_norm("qk_norm_backward", op.dqkv, 3); }

}  // namespace weft
