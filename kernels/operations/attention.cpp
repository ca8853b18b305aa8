#include "kernels/operations/attention.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

namespace {

void check_attention(const Checker& check, const Tensor& out, const Tensor& lse, const Tensor& kept,
                     const Tensor& qkv, const Tensor& document_bounds, const Tensor& slopes,
                     float dropout_p) {
  check.model_type("qkv", qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) == 3,
                "qkv is " + text_of(qkv) + ", should be (B,T,H,3,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("out", out, qkv.dtype(), {B, T, H, D});
  check.tensor("lse", lse, DType::kFloat32, {B, H, T});
  if (document_bounds) check.tensor("document_bounds", document_bounds, DType::kInt32, {B, T, 2});
  if (slopes) check.tensor("slopes", slopes, DType::kFloat32, {H});
  check.dropout({.p = dropout_p});
  if (dropout_p > 0.0F) {
    check.tensor("kept", kept, DType::kInt32, {B, H, attention_mask_words(T)});
  }
}

// Returns B, T, H and D.
std::array<int64_t, 4> sizes_of(const Tensor& qkv) {
  return {qkv.shape(0), qkv.shape(1), qkv.shape(2), qkv.shape(4)};
}

// How much documents leave to compute is known on the device only.
double flops_of(const Tensor& qkv, const Tensor& document_bounds, double num_products) {
  if (document_bounds) return 0;
  const auto [B, T, H, D] = sizes_of(qkv);
  return num_products * product({B, H, T, T, D});
}

}  // namespace

void check(const AttentionForward& op) {
  const Checker checker("attention_forward");
  check_attention(checker, op.out, op.lse, op.kept, op.qkv, op.document_bounds, op.slopes,
                  op.dropout.p);
  const Heads& heads = op.heads;
  const int64_t H = op.qkv.shape(2);
  checker.require(
      heads.first >= 0 && (heads.total == 0 ? heads.first == 0 : heads.first + H <= heads.total),
      "heads from " + std::to_string(heads.first) + " on of " + std::to_string(heads.total) +
          " are given, but qkv is " + text_of(op.qkv));
  checker.require(op.dropout.first_element % kMaskBitsPerDraw == 0,
                  "dropout's first element is " + std::to_string(op.dropout.first_element) +
                      ", should be a multiple of " + std::to_string(kMaskBitsPerDraw));
}

Operation operation_of(const AttentionForward& op) {
  return {.name = "attention_forward",
          .dimensions = "B T H D",
          .sizes = sizes_of(op.qkv),
          .dtype = op.qkv.dtype(),
          .flops = flops_of(op.qkv, op.document_bounds, 2),
          .bytes = bytes_of({op.out, op.lse, op.kept, op.qkv, op.document_bounds})};
}

void check(const AttentionBackward& op) {
  const Checker checker("attention_backward");
  check_attention(checker, op.out, op.lse, op.kept, op.qkv, op.document_bounds, op.slopes,
                  op.dropout_p);
  const Tensor& qkv = op.qkv;
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  checker.tensor("dqkv", op.dqkv, qkv.dtype(), {B, T, H, 3, D});
  checker.tensor("dout", op.dout, qkv.dtype(), {B, T, H, D});
  if (op.dqkv_bias) checker.elements("dqkv_bias", op.dqkv_bias, DType::kFloat32, H * 3 * D);
}

Operation operation_of(const AttentionBackward& op) {
  return {
      .name = "attention_backward",
      .dimensions = "B T H D",
      .sizes = sizes_of(op.qkv),
      .dtype = op.qkv.dtype(),
      .flops = flops_of(op.qkv, op.document_bounds, 5),
      .bytes = bytes_of({op.dqkv, op.dout, op.out, op.lse, op.kept, op.qkv, op.document_bounds}) +
               sum_bytes({op.dqkv_bias}, op.accumulate)};
}

}  // namespace weft
