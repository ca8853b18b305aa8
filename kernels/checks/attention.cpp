// Checks of attention and of what becomes of queries, keys and values before it.
#include "kernels/checks/check_shapes.h"
#include "kernels/checks/checker.h"

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

}  // namespace

void check_rotate(const Rotary& args) {
  const Checker check("rotate");
  const Tensor &qkv = args.qkv, &angles = args.angles;
  check.model_type("qkv", qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                "qkv is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), D = qkv.shape(4);
  check.require(angles.rank() == 3, "angles is " + text_of(angles) + ", should be (S,2,P)");
  check.tensor("angles", angles, DType::kFloat32, {angles.shape(0), 2, angles.shape(2)});
  check.require(angles.shape(0) >= T && 2 * angles.shape(2) <= D,
                "angles is " + text_of(angles) + ", but qkv is " + text_of(qkv) +
                    ": should have a row for each position, and no more pairs than a head");
  if (args.document_bounds)
    check.tensor("document_bounds", args.document_bounds, DType::kInt32, {B, T, 2});
}

void check_groups(const char* operation, const Tensor& expanded, const Tensor& grouped) {
  const Checker check(operation);
  check.model_type("grouped", grouped);
  check.require(grouped.rank() == 5 && grouped.shape(3) >= 3,
                "grouped is " + text_of(grouped) + ", should be (B,T,G,R+2,D)");
  const int64_t num_heads = grouped.shape(2) * (grouped.shape(3) - 2);
  check.tensor("expanded", expanded, grouped.dtype(),
               {grouped.shape(0), grouped.shape(1), num_heads, 3, grouped.shape(4)});
}

void check_attention_forward(const Attention& args) {
  const Checker check("attention_forward");
  check_attention(check, args.out, args.lse, args.kept, args.qkv, args.document_bounds, args.slopes,
                  args.dropout.p);
  const Heads& heads = args.heads;
  const int64_t H = args.qkv.shape(2);
  check.require(
      heads.first >= 0 && (heads.total == 0 ? heads.first == 0 : heads.first + H <= heads.total),
      "heads from " + std::to_string(heads.first) + " on of " + std::to_string(heads.total) +
          " are given, but qkv is " + text_of(args.qkv));
  check.require(args.dropout.first_element % kMaskBitsPerDraw == 0,
                "dropout's first element is " + std::to_string(args.dropout.first_element) +
                    ", should be a multiple of " + std::to_string(kMaskBitsPerDraw));
}

void check_attention_backward(const AttentionBackward& args) {
  const Checker check("attention_backward");
  check_attention(check, args.out, args.lse, args.kept, args.qkv, args.document_bounds, args.slopes,
                  args.dropout_p);
  const Tensor& qkv = args.qkv;
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("dqkv", args.dqkv, qkv.dtype(), {B, T, H, 3, D});
  check.tensor("dout", args.dout, qkv.dtype(), {B, T, H, D});
  if (args.dqkv_bias) check.elements("dqkv_bias", args.dqkv_bias, DType::kFloat32, H * 3 * D);
}

}  // namespace weft
