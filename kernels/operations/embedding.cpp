#include "kernels/operations/embedding.h"

#include <algorithm>

#include "kernels/operations/checker.h"
#include "kernels/operations/work.h"

namespace weft {

void check(const EmbeddingForward& op) {
  const Checker checker("embedding_forward");
  const Tensor& out = op.out;
  checker.model_type("out", out);
  checker.require(out.rank() == 3, "out is " + text_of(out) + ", should be (B,T,C)");
  checker.tensor("tokens", op.tokens, DType::kInt32, {out.shape(0), out.shape(1)});
  checker.rows("word", op.word, out.dtype(), num_rows(op.word), out.shape(2));
}
Operation operation_of(const EmbeddingForward& op) {
  return rows_operation("embedding_forward", op.out,
                        2 * bytes_of({op.out}) + bytes_of({op.tokens}));
}

void check(const EmbeddingBackward& op) {
  const Checker checker("embedding_backward");
  const Tensor& dout = op.dout;
  checker.model_type("dout", dout);
  checker.require(dout.rank() == 3, "dout is " + text_of(dout) + ", should be (B,T,C)");
  checker.tensor("tokens", op.tokens, DType::kInt32, {dout.shape(0), dout.shape(1)});
  checker.rows("dword", op.dword, DType::kFloat32, num_rows(op.dword), dout.shape(2));
}
Operation operation_of(const EmbeddingBackward& op) {
  const int64_t touched_rows = std::min(num_rows(op.dword), num_rows(op.dout));
  const double touched_bytes =
      product({touched_rows, num_columns(op.dword), size_bytes(op.dword.dtype())});
  return rows_operation("embedding_backward", op.dout,
                        bytes_of({op.dout, op.tokens}) + 2 * touched_bytes);
}

}  // namespace weft
