#include "kernels/operations/generation.h"

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

void check(const KeepKeys& op) {
  const Checker checker("keep_keys");
  const Tensor& qkv = op.qkv;
  checker.model_type("qkv", qkv);
  checker.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                  "qkv is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), G = qkv.shape(2), D = qkv.shape(4);
  checker.rank("keys", op.keys, 4, "(B,S,G,D)");
  const int64_t S = op.keys.shape(1);
  checker.tensor("keys", op.keys, qkv.dtype(), {B, S, G, D});
  checker.tensor("values", op.values, qkv.dtype(), {B, S, G, D});
  checker.require(op.first_position >= 0 && op.first_position + T <= S,
                  "tokens from " + std::to_string(op.first_position) + " to " +
                      std::to_string(op.first_position + T - 1) + " are given, but keys is " +
                      text_of(op.keys));
  checker.offset(op.offset);
}

Operation operation_of(const KeepKeys& op) {
  const Tensor& qkv = op.qkv;
  const int64_t B = qkv.shape(0), T = qkv.shape(1), G = qkv.shape(2), D = qkv.shape(4);
  return {.name = "keep_keys",
          .dimensions = "B T G D",
          .sizes = {B, T, G, D},
          .dtype = qkv.dtype(),
          .bytes = 4 * product({B, T, G, D, size_bytes(qkv.dtype())})};
}

void check(const SampleTokens& op) {
  const Checker checker("sample_tokens");
  checker.model_type("logits", op.logits);
  checker.rank("logits", op.logits, 2, "(N,Vp)");
  const int64_t N = num_rows(op.logits), Vp = num_columns(op.logits);
  checker.elements("tokens", op.tokens, DType::kInt32, N);
  checker.require(op.vocabulary_size >= 1 && op.vocabulary_size <= Vp,
                  "the vocabulary has " + std::to_string(op.vocabulary_size) +
                      " tokens, but logits is " + text_of(op.logits));
  checker.require(op.temperature >= 0.0F && op.top_k >= 0 && op.top_p > 0.0F && op.top_p <= 1.0F,
                  "temperature is " + std::to_string(op.temperature) + ", top_k " +
                      std::to_string(op.top_k) + " and top_p " + std::to_string(op.top_p));
  checker.offset(op.offset);
  if (op.temperature == 0.0F) return;
  checker.elements("streams", op.streams, DType::kInt32, N);
}

Operation operation_of(const SampleTokens& op) {
  return rows_operation("sample_tokens", op.logits, bytes_of({op.logits, op.tokens}));
}

}  // namespace weft
