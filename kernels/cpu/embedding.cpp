// Word and position embeddings, forward and backward.
#include <algorithm>

#include "kernels/cpu/dropout.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;        // rows per task
constexpr int64_t kColumnBlock = 64;  // columns per task of the backward pass

}  // namespace

int64_t embedding_scratch_floats(int64_t C) { return 2 * std::max(C, kColumnBlock); }

void embedding_forward(const Context& context, Tensor out, Tensor tokens, Tensor word,
                       Tensor position, int64_t first_word, const Dropout& dropout) {
  const int64_t T = out.shape(1), C = out.shape(2), N = out.shape(0) * T;
  const int64_t num_words = word.num_elements() / C;
  context.need_scratch("embedding_forward", embedding_scratch_floats(C));
  context.for_each_range(N, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float* buffer = context.scratch(thread);
    for (int64_t n = begin; n < end; ++n) {
      float* row = row_target(out, n * C, buffer + C);
      const int64_t id = tokens.as<int32_t>()[n] - first_word;
      if (id >= 0 && id < num_words) {
        std::copy_n(read_row(word, id * C, C, buffer), C, row);
      } else {
        std::fill_n(row, C, 0.0F);
      }
      if (position) add_rows(row, row, read_row(position, n % T * C, C, buffer), C);
      if (dropout.p > 0) {
        dropout_multipliers(buffer, dropout, n * C, C);
        multiply_row(row, buffer, C);
      }
      store_row(out, n * C, C, row);
    }
  });
}

// One task owns a block of columns of both gradients and walks all rows in order, so no two tasks
// add to the same number.
void embedding_backward(const Context& context, Tensor dword, Tensor dposition, Tensor dout,
                        Tensor tokens, int64_t first_word, const Dropout& dropout) {
  const int64_t T = dout.shape(1), C = dout.shape(2), N = dout.shape(0) * T;
  const int64_t num_words = dword.num_elements() / C;
  context.need_scratch("embedding_backward", embedding_scratch_floats(C));
  context.for_each_range(C, kColumnBlock, [&](int64_t begin, int64_t end, int thread) {
    const int64_t width = end - begin;
    float* gradient = context.scratch(thread);
    float* multipliers = gradient + kColumnBlock;
    for (int64_t n = 0; n < N; ++n) {
      const float* row = read_row(dout, n * C + begin, width, gradient);
      if (dropout.p > 0) {
        dropout_multipliers(multipliers, dropout, n * C + begin, width);
        multiply_row(multipliers, row, width);
        row = multipliers;
      }
      const int64_t id = tokens.as<int32_t>()[n] - first_word;
      if (id >= 0 && id < num_words) {
        float* sum = dword.as<float>() + id * C + begin;
        add_rows(sum, sum, row, width);
      }
      if (dposition) {
        float* sum = dposition.as<float>() + n % T * C + begin;
        add_rows(sum, sum, row, width);
      }
    }
  });
}

}  // namespace weft::cpu
