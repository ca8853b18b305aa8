// The word embedding, forward and backward.
#include "kernels/operations/embedding.h"

#include <algorithm>

#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;        // rows per task
constexpr int64_t kColumnBlock = 64;  // columns per task of the backward pass

}  // namespace

int64_t scratch_floats(const EmbeddingBackward&) { return kColumnBlock; }

void run(const Context& context, const EmbeddingForward& op) {
  const Tensor &out = op.out, &word = op.word;
  const int64_t C = out.shape(2), N = out.shape(0) * out.shape(1);
  const int64_t num_words = word.num_elements() / C;
  const int64_t row_bytes = C * size_bytes(out.dtype());
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      char* row = out.as<char>() + n * row_bytes;
      const int64_t id = op.tokens.as<int32_t>()[n] - op.first_word;
      if (id >= 0 && id < num_words) {
        std::copy_n(word.as<const char>() + id * row_bytes, row_bytes, row);
      } else {
        std::fill_n(row, row_bytes, char{0});
      }
    }
  });
}

// One task owns a block of columns and walks all rows in order, so no two tasks add to the same
// number.
void run(const Context& context, const EmbeddingBackward& op) {
  const Tensor &dword = op.dword, &dout = op.dout;
  const int64_t C = dout.shape(2), N = dout.shape(0) * dout.shape(1);
  const int64_t num_words = dword.num_elements() / C;
  context.need_scratch("embedding_backward", scratch_floats(op));
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t n = 0; n < N; ++n) {
      const int64_t id = op.tokens.as<int32_t>()[n] - op.first_word;
      if (id < 0 || id >= num_words) continue;
      float* sum = dword.as<float>() + id * C + begin;
      add_rows(sum, sum, read_row(dout, n * C + begin, end - begin, context.scratch(thread)),
               end - begin);
    }
  });
}

}  // namespace weft::cpu
