#include "kernels/operations/attention.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

Qkv::Qkv(const Tensor& packed) {
  if (packed.rank() != 5 || packed.shape(3) < 3)
    throw std::invalid_argument("packed queries, keys and values are " + text_of(packed) +
                                ", should be (B,T,G,R+2,D)");
  const int64_t T = packed.shape(1), G = packed.shape(2), rows = packed.shape(3),
                D = packed.shape(4), R = rows - 2;
  q = {packed.data(),
       packed.dtype(),
       packed.shape(0),
       T,
       G * R,
       D,
       T * G * rows * D,
       G * rows * D,
       D,
       static_cast<int>(R),
       static_cast<int>(rows)};
  k = q;
  k.H = G;
  k.group_heads = 1;
  v = k;
  if (packed.empty()) return;  // It has a shape alone.
  k.data = packed.as<char>() + R * D * size_bytes(packed.dtype());
  v.data = packed.as<char>() + (R + 1) * D * size_bytes(packed.dtype());
}

Tensor packed_tensor(const Qkv& qkv) {
  const HeadVectors& q = qkv.q;
  const Tensor packed(q.data, q.dtype, {q.B, q.T, q.H, 3, q.D});
  const Qkv wanted(packed);
  return wanted == qkv ? packed : Tensor();
}

namespace {

std::string text_of_vectors(const HeadVectors& vectors) {
  return std::string(name_of(vectors.dtype)) + " " +
         text_of({vectors.B, vectors.T, vectors.H, vectors.D});
}

void check_vectors(const Checker& check, const char* name, const HeadVectors& vectors,
                   const HeadVectors& like, int64_t T, int64_t H) {
  const bool equal = vectors.dtype == like.dtype && vectors.B == like.B && vectors.T == T &&
                     vectors.H == H && vectors.D == like.D;
  check.require(vectors.data != nullptr && equal,
                std::string(name) + " is " + text_of_vectors(vectors) + ", should be " +
                    name_of(like.dtype) + " " + text_of({like.B, T, H, like.D}));
}

// Checks that heads of queries lie at equal distances, or in the groups that share a key, and that
// values lie as keys do.
void check_layout(const Checker& check, const char* name, const Qkv& qkv) {
  const int group_size = static_cast<int>(qkv.q.H / qkv.k.H);
  HeadVectors like_keys = qkv.k;
  like_keys.data = qkv.v.data;
  check.require(
      (qkv.q.group_heads == 1 || qkv.q.group_heads == group_size) && qkv.k.group_heads == 1,
      std::string(name) + " has queries in groups of " + std::to_string(qkv.q.group_heads) +
          " and keys in groups of " + std::to_string(qkv.k.group_heads) + ", should be 1, or " +
          std::to_string(group_size) + " and 1");
  check.require(qkv.v == like_keys,
                std::string(name) + " has other distances of values than of keys");
}

// Checks what forward and backward have in common.
template <typename Op>
void check_attention(const Checker& check, const Op& op, float dropout_p) {
  const HeadVectors &q = op.qkv.q, &k = op.qkv.k;
  check.require(q.data != nullptr && q.num_bytes() > 0, "q is empty, but the operation needs it");
  check.require(is_model_type(q.dtype),
                "q is " + text_of_vectors(q) + "; the model's type is fp32, bf16 or fp16");
  check.require(k.H > 0 && q.H % k.H == 0,
                "q is " + text_of_vectors(q) + ", but k is " + text_of_vectors(k) +
                    ": the heads of queries should be a multiple of those of keys");
  check_vectors(check, "k", k, q, k.T, k.H);
  check_vectors(check, "v", op.qkv.v, q, k.T, k.H);
  check_layout(check, "qkv", op.qkv);
  check.require(op.first_query >= 0 && op.first_query + q.T <= k.T,
                "queries stand at positions from " + std::to_string(op.first_query) + " to " +
                    std::to_string(op.first_query + q.T - 1) + ", but k is " + text_of_vectors(k));
  check.tensor("out", op.out, q.dtype, {q.B, q.T, q.H, q.D});
  check.tensor("lse", op.lse, DType::kFloat32, {q.B, q.H, q.T});
  if (op.document_bounds)
    check.tensor("document_bounds", op.document_bounds, DType::kInt32, {q.B, k.T, 2});
  if (op.slopes) check.tensor("slopes", op.slopes, DType::kFloat32, {q.H});
  check.dropout({.p = dropout_p});
  if (dropout_p == 0.0F) return;
  check.tensor("dropout_mask", op.dropout_mask, DType::kInt32,
               {q.B, q.H, attention_mask_words(k.T)});
  check.require(op.first_query % kMaskTile == 0, "first_query is " +
                                                     std::to_string(op.first_query) +
                                                     ", should be a multiple of 64 with dropout");
}

double bytes_of_qkv(const Qkv& qkv) {
  return static_cast<double>(qkv.q.num_bytes() + qkv.k.num_bytes() + qkv.v.num_bytes());
}

// How much documents leave to compute is known on the device only.
template <typename Op>
double flops_of(const Op& op, double num_products) {
  if (op.document_bounds) return 0;
  const HeadVectors& q = op.qkv.q;
  return num_products * product({q.B, q.H, q.T, 2 * op.first_query + q.T, q.D});
}

}  // namespace

void check(const AttentionForward& op) {
  const Checker checker("attention_forward");
  check_attention(checker, op, op.dropout.p);
  const Heads& heads = op.heads;
  const int64_t H = op.qkv.q.H;
  checker.require(
      heads.first >= 0 && (heads.total == 0 ? heads.first == 0 : heads.first + H <= heads.total),
      "heads from " + std::to_string(heads.first) + " on of " + std::to_string(heads.total) +
          " are given, but q is " + text_of_vectors(op.qkv.q));
  checker.offset(op.offset);
  checker.require(op.dropout.first_element % kMaskBitsPerDraw == 0,
                  "dropout's first element is " + std::to_string(op.dropout.first_element) +
                      ", should be a multiple of " + std::to_string(kMaskBitsPerDraw));
}

Operation operation_of(const AttentionForward& op) {
  const HeadVectors& q = op.qkv.q;
  return {.name = "attention_forward",
          .dimensions = "B T H D",
          .sizes = {q.B, q.T, q.H, q.D},
          .dtype = q.dtype,
          .flops = flops_of(op, 2),
          .bytes = bytes_of({op.out, op.lse, op.dropout_mask, op.document_bounds}) +
                   bytes_of_qkv(op.qkv)};
}

void check(const AttentionBackward& op) {
  const Checker checker("attention_backward");
  check_attention(checker, op, op.dropout_p);
  const HeadVectors &q = op.qkv.q, &k = op.qkv.k;
  check_vectors(checker, "dq", op.dqkv.q, q, q.T, q.H);
  check_vectors(checker, "dk", op.dqkv.k, q, k.T, k.H);
  check_vectors(checker, "dv", op.dqkv.v, q, k.T, k.H);
  check_layout(checker, "dqkv", op.dqkv);
  checker.tensor("dout", op.dout, q.dtype, {q.B, q.T, q.H, q.D});
  if (!op.dqkv_bias) return;
  checker.elements("dqkv_bias", op.dqkv_bias, DType::kFloat32, q.H * 3 * q.D);
  checker.require(!packed_tensor(op.dqkv).empty(),
                  "dqkv_bias is given, but dqkv is not packed as (B,T,H,3,D)");
}

Operation operation_of(const AttentionBackward& op) {
  const HeadVectors& q = op.qkv.q;
  return {.name = "attention_backward",
          .dimensions = "B T H D",
          .sizes = {q.B, q.T, q.H, q.D},
          .dtype = q.dtype,
          .flops = flops_of(op, 5),
          .bytes = bytes_of({op.dout, op.out, op.lse, op.dropout_mask, op.document_bounds}) +
                   bytes_of_qkv(op.qkv) + bytes_of_qkv(op.dqkv) +
                   sum_bytes({op.dqkv_bias}, op.accumulate)};
}

}  // namespace weft
