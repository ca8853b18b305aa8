// Causal self-attention with one task per (batch, head), one block of queries at a time. The scores
// of a block are in memory, never those of a sequence. Backward recomputes them
// [Dao 2023, arXiv:2307.08691]. The softmax is plain instead of online, because a CPU's cache holds
// whole rows of a block. With documents a block computes the scores from the first key on that any
// of its queries sees.
#include "kernels/operations/attention.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loops/dropout.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kQueryBlock = 64;

// Replaces the values by e^(value - shift) and returns their sum.
WEFT_VECTOR_CLONES float exp_row(float* values, float shift, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    values[i] = fast_exp(values[i] - shift);
    sum += values[i];
  }
  return sum;
}

WEFT_VECTOR_CLONES void scale_row(float* values, float factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] *= factor;
}

// Adds slope * (key - query) to the scores of a query; the last of its n keys is at distance 0.
WEFT_VECTOR_CLONES void add_distances(float* scores, float slope, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] += slope * static_cast<float>(i + 1 - n);
}

WEFT_VECTOR_CLONES float dot(const float* a, const float* b, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Replaces dP by dscores = scale * P * (dP - delta). [Dao 2023, algorithm 2]
WEFT_VECTOR_CLONES void softmax_backward_row(float* dprobabilities, const float* probabilities,
                                             float delta, float scale, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    dprobabilities[i] = scale * probabilities[i] * (dprobabilities[i] - delta);
  }
}

enum class Op { kPlain, kTransposed };

// Computes c (m,n) = alpha * a * b + beta * c. All are row-major, and dense unless a stride is
// given.
void gemm(Op op_a, Op op_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a,
          int64_t stride_a, const float* b, int64_t stride_b, float beta, float* c,
          int64_t stride_c) {
  cblas_sgemm(CblasRowMajor, op_a == Op::kTransposed ? CblasTrans : CblasNoTrans,
              op_b == Op::kTransposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), alpha, a,
              static_cast<blasint>(stride_a), b, static_cast<blasint>(stride_b), beta, c,
              static_cast<blasint>(stride_c));
}

// One head of queries of a sample, with its key head, and the place of its rows. Queries and keys
// are numbered by their positions in the sample, lse and out by the queries that there are.
struct Head {
  int64_t b, h, H, Tq, Tk, D;
  int64_t first_query;
  int64_t key_head;
  int64_t global;  // this head's number among all samples and all ranks' heads
  int64_t end_of_queries() const { return first_query + Tq; }
  int64_t out_row(int64_t query) const { return ((b * Tq + query - first_query) * H + h) * D; }
  int64_t lse_row(int64_t query) const { return (b * H + h) * Tq + query - first_query; }
  float slope(const Tensor& slopes) const { return slopes.as<float>()[h]; }
  uint32_t* kept_words(const Tensor& kept) const {
    return kept.as<uint32_t>() + (b * H + h) * attention_mask_words(Tk);
  }
  // Returns the first key that a query sees.
  int64_t first_key(const Tensor& document_bounds, int64_t query) const {
    return document_bounds ? document_bounds.as<int32_t>()[(b * Tk + query) * 2] : 0;
  }
};

// The keys [first, first + count) of a block of queries: the first query's document begins there,
// and the last query looks no further.
struct BlockKeys {
  int64_t first, count;
  BlockKeys(const Head& head, const Tensor& document_bounds, int64_t first_query,
            int64_t num_queries)
      : first(head.first_key(document_bounds, first_query)),
        count(first_query + num_queries - first) {}
};

// The part of a row of scores that the query sees, as columns of its block.
struct VisibleKeys {
  int64_t begin, end;
  VisibleKeys(const Head& head, const Tensor& document_bounds, int64_t query, int64_t block_first)
      : begin(head.first_key(document_bounds, query) - block_first), end(query + 1 - block_first) {}
  int64_t count() const { return end - begin; }
  // Sets the columns that the query does not see to 0.
  void clear_others(float* row, int64_t num_columns) const {
    std::fill(row, row + begin, 0.0F);
    std::fill(row + end, row + num_columns, 0.0F);
  }
};

// A view of all that a tensor's vectors lie in, for read_row() and store_row().
Tensor memory_of(const HeadVectors& vectors) { return {vectors.data, vectors.dtype, {1}}; }

// Loads the vectors of a head's first T tokens as fp32 (T,D).
void load_vectors(float* panel, const HeadVectors& vectors, int64_t b, int64_t head, int64_t T) {
  for (int64_t t = 0; t < T; ++t) {
    float* row = panel + t * vectors.D;
    const int64_t first = vectors.element(b, t, head);
    const float* values = read_row(memory_of(vectors), first, vectors.D, row);
    if (values != row) std::copy_n(values, vectors.D, row);
  }
}

void store_vectors(const HeadVectors& vectors, int64_t b, int64_t head, int64_t first_t,
                   int64_t num_rows, const float* panel) {
  for (int64_t r = 0; r < num_rows; ++r) {
    store_row(memory_of(vectors), vectors.element(b, first_t + r, head), vectors.D,
              panel + r * vectors.D);
  }
}

// Adds rows of a head's gradients to the sums of their columns.
WEFT_VECTOR_CLONES void add_rows_to_sums(double* sums, const float* rows, int64_t num_rows,
                                         int64_t D) {
  for (int64_t r = 0; r < num_rows; ++r) {
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) sums[d] += rows[r * D + d];
  }
}

// The sums of dQ and of dV over the tokens of each (batch, head), which are rows of 2D numbers;
// empty where the gradient of the bias is not wanted. Those of dK are 0.
class BiasSums {
 public:
  explicit BiasSums(const AttentionBackward& op) : D_(op.qkv.q.D) {
    if (op.dqkv_bias) sums_.resize(static_cast<size_t>(op.qkv.q.B * op.qkv.q.H * 2 * D_));
  }
  void add_queries(const Head& head, const float* rows, int64_t num_rows) {
    if (!sums_.empty()) add_rows_to_sums(of(head.b, head.h, head.H), rows, num_rows, D_);
  }
  void add_values(const Head& head, const float* rows, int64_t num_rows) {
    if (!sums_.empty()) add_rows_to_sums(of(head.b, head.h, head.H) + D_, rows, num_rows, D_);
  }
  // Adds up the samples in order.
  void store(const Tensor& dqkv_bias, int64_t B, int64_t H, bool accumulate) {
    for (int64_t h = 0; h < H && !sums_.empty(); ++h) {
      for (int64_t b = 1; b < B; ++b) {
        for (int64_t i = 0; i < 2 * D_; ++i) of(0, h, H)[i] += of(b, h, H)[i];
      }
      float* out = dqkv_bias.as<float>() + h * 3 * D_;
      if (!accumulate) std::fill_n(out, 3 * D_, 0.0F);
      for (int64_t d = 0; d < D_; ++d) {
        out[d] += static_cast<float>(of(0, h, H)[d]);
        out[2 * D_ + d] += static_cast<float>(of(0, h, H)[D_ + d]);
      }
    }
  }

 private:
  double* of(int64_t b, int64_t h, int64_t H) { return sums_.data() + (b * H + h) * 2 * D_; }

  int64_t D_;
  std::vector<double> sums_;
};

// The arrays in a thread's scratch.
struct Panels {
  float *q, *dout;                        // (Tq,D)
  float *k, *v, *dk, *dv;                 // (Tk,D)
  float *probabilities, *dprobabilities;  // (kQueryBlock,Tk)
  float* multipliers;                     // (Tk, rounded up to whole tiles of the mask)
  float *block, *row;                     // (kQueryBlock,D), (D)
  Panels(float* scratch, int64_t Tq, int64_t Tk, int64_t D)
      : q(scratch),
        dout(q + Tq * D),
        k(dout + Tq * D),
        v(k + Tk * D),
        dk(v + Tk * D),
        dv(dk + Tk * D),
        probabilities(dv + Tk * D),
        dprobabilities(probabilities + kQueryBlock * Tk),
        multipliers(dprobabilities + kQueryBlock * Tk),
        block(multipliers + attention_mask_tiles(Tk) * kMaskTile),
        row(block + kQueryBlock * D) {}
};

int64_t scratch_of_head(const Qkv& qkv) {
  const int64_t Tq = qkv.q.T, Tk = qkv.k.T, D = qkv.q.D;
  return (2 * Tq + 4 * Tk) * D + 2 * kQueryBlock * Tk + attention_mask_tiles(Tk) * kMaskTile +
         kQueryBlock * D + D;
}

// Computes the multipliers of the keys that `query` can see, and of the rest of its last tile.
void load_kept(const Head& head, const Tensor& kept, int64_t query, float scale,
               float* multipliers) {
  const uint32_t* words = head.kept_words(kept);
  for (int64_t key = 0; key < (query / kMaskTile + 1) * kMaskTile; key += kMaskTile) {
    const uint32_t* row = words + attention_mask_word(query, key);
    for (int64_t i = 0; i < kMaskTile; ++i) {
      const uint32_t bit = row[i % 8 / 2] >> attention_mask_bit(query, i) & 1;
      multipliers[key + i] = bit != 0 ? scale : 0.0F;
    }
  }
}

// Calls function(first, num_queries) for the blocks of a head's queries. They begin at multiples of
// kQueryBlock of the positions.
template <typename Function>
void for_each_block(const Head& head, const Function& function) {
  for (int64_t first = head.first_query; first < head.end_of_queries();) {
    const int64_t end = std::min((first / kQueryBlock + 1) * kQueryBlock, head.end_of_queries());
    function(first, end - first);
    first = end;
  }
}

void head_forward(const Panels& panels, const Head& head, const AttentionForward& op) {
  const int64_t D = head.D;
  const Dropout& dropout = op.dropout;
  load_vectors(panels.q, op.qkv.q, head.b, head.h, head.Tq);
  load_vectors(panels.k, op.qkv.k, head.b, head.key_head, head.end_of_queries());
  load_vectors(panels.v, op.qkv.v, head.b, head.key_head, head.end_of_queries());
  if (dropout.p > 0) {
    const int64_t num_words = attention_mask_words(head.Tk);
    dropout_words(head.kept_words(op.dropout_mask), dropout, head.global * num_words, num_words);
  }
  for_each_block(head, [&](int64_t first, int64_t num_queries) {
    const BlockKeys keys(head, op.document_bounds, first, num_queries);
    gemm(Op::kPlain, Op::kTransposed, num_queries, keys.count, D, op.scale,
         panels.q + (first - head.first_query) * D, D, panels.k + keys.first * D, D, 0.0F,
         panels.probabilities, keys.count);
    for (int64_t r = 0; r < num_queries; ++r) {
      const VisibleKeys visible(head, op.document_bounds, first + r, keys.first);
      float* row = panels.probabilities + r * keys.count;
      float* seen = row + visible.begin;
      if (op.slopes) add_distances(seen, head.slope(op.slopes), visible.count());
      const float max = max_of_row(seen, visible.count());
      const float sum = exp_row(seen, max, visible.count());
      op.lse.as<float>()[head.lse_row(first + r)] = max + std::log(sum);
      scale_row(seen, 1.0F / sum, visible.count());
      if (dropout.p > 0) {
        load_kept(head, op.dropout_mask, first + r, dropout_scale(dropout.p), panels.multipliers);
        multiply_row(seen, panels.multipliers + keys.first + visible.begin, visible.count());
      }
      visible.clear_others(row, keys.count);
    }
    gemm(Op::kPlain, Op::kPlain, num_queries, D, keys.count, 1.0F, panels.probabilities, keys.count,
         panels.v + keys.first * D, D, 0.0F, panels.block, D);
    for (int64_t r = 0; r < num_queries; ++r) {
      store_row(op.out, head.out_row(first + r), D, panels.block + r * D);
    }
  });
}

// Turns scores into P (with dropout applied, for dV) and dP into dS, in place, for the rows of one
// query block.
void block_backward(const Panels& panels, const Head& head, int64_t first, int64_t num_queries,
                    const BlockKeys& keys, const AttentionBackward& op) {
  const int64_t D = head.D;
  const bool drops = op.dropout_p > 0;
  for (int64_t r = 0; r < num_queries; ++r) {
    const VisibleKeys visible(head, op.document_bounds, first + r, keys.first);
    float* row = panels.probabilities + r * keys.count;
    float* drow = panels.dprobabilities + r * keys.count;
    float *p = row + visible.begin, *dp = drow + visible.begin;
    if (op.slopes) add_distances(p, head.slope(op.slopes), visible.count());
    exp_row(p, op.lse.as<float>()[head.lse_row(first + r)], visible.count());
    // delta is the sum over keys of P * dP, which equals that over D of dout * out.
    const float delta = dot(panels.dout + (first + r - head.first_query) * D,
                            read_row(op.out, head.out_row(first + r), D, panels.row), D);
    const float* multipliers = panels.multipliers + keys.first + visible.begin;
    if (drops) {
      load_kept(head, op.dropout_mask, first + r, dropout_scale(op.dropout_p), panels.multipliers);
      multiply_row(dp, multipliers, visible.count());
    }
    softmax_backward_row(dp, p, delta, op.scale, visible.count());
    if (drops) multiply_row(p, multipliers, visible.count());
    visible.clear_others(row, keys.count);
    visible.clear_others(drow, keys.count);
  }
}

// `gradients` have a key and a value for each head of queries.
void head_backward(const Panels& panels, const Head& head, const AttentionBackward& op,
                   const Qkv& gradients, BiasSums& bias_sums) {
  const int64_t D = head.D;
  load_vectors(panels.q, op.qkv.q, head.b, head.h, head.Tq);
  load_vectors(panels.k, op.qkv.k, head.b, head.key_head, head.Tk);
  load_vectors(panels.v, op.qkv.v, head.b, head.key_head, head.Tk);
  load_vectors(panels.dout, head_vectors(op.dout), head.b, head.h, head.Tq);
  std::fill_n(panels.dk, head.Tk * D, 0.0F);
  std::fill_n(panels.dv, head.Tk * D, 0.0F);
  for_each_block(head, [&](int64_t first, int64_t num_queries) {
    const BlockKeys keys(head, op.document_bounds, first, num_queries);
    const int64_t first_row = first - head.first_query;
    const float *q = panels.q + first_row * D, *k = panels.k + keys.first * D;
    const float* block_dout = panels.dout + first_row * D;
    gemm(Op::kPlain, Op::kTransposed, num_queries, keys.count, D, op.scale, q, D, k, D, 0.0F,
         panels.probabilities, keys.count);
    gemm(Op::kPlain, Op::kTransposed, num_queries, keys.count, D, 1.0F, block_dout, D,
         panels.v + keys.first * D, D, 0.0F, panels.dprobabilities, keys.count);
    block_backward(panels, head, first, num_queries, keys, op);
    gemm(Op::kTransposed, Op::kPlain, keys.count, D, num_queries, 1.0F, panels.probabilities,
         keys.count, block_dout, D, 1.0F, panels.dv + keys.first * D, D);
    gemm(Op::kPlain, Op::kPlain, num_queries, D, keys.count, 1.0F, panels.dprobabilities,
         keys.count, k, D, 0.0F, panels.block, D);
    gemm(Op::kTransposed, Op::kPlain, keys.count, D, num_queries, 1.0F, panels.dprobabilities,
         keys.count, q, D, 1.0F, panels.dk + keys.first * D, D);
    store_vectors(gradients.q, head.b, head.h, first_row, num_queries, panels.block);
    bias_sums.add_queries(head, panels.block, num_queries);
  });
  store_vectors(gradients.k, head.b, head.h, 0, head.Tk, panels.dk);
  store_vectors(gradients.v, head.b, head.h, 0, head.Tk, panels.dv);
  bias_sums.add_values(head, panels.dv, head.Tk);
}

template <typename Op, typename Task>
void for_each_head(const Context& context, const Op& op, const Heads& heads, const Task& task) {
  const HeadVectors &q = op.qkv.q, &k = op.qkv.k;
  const int64_t total = heads.total > 0 ? heads.total : q.H;
  context.for_each(q.B * q.H, [&](int64_t i, int thread) {
    const int64_t b = i / q.H, h = i % q.H;
    task(Panels(context.scratch(thread), q.T, k.T, q.D),
         Head{b, h, q.H, q.T, k.T, q.D, op.first_query, h / (q.H / k.H),
              b * total + heads.first + h});
  });
}

// Adds up the vectors of the heads that share each key: sums (B,T,G,D) of inp (B,T,H,D).
void sum_groups(const Context& context, const HeadVectors& sums, const HeadVectors& inp) {
  const int64_t group_size = inp.H / sums.H, D = sums.D;
  context.for_each(sums.B * sums.T, [&](int64_t token, int thread) {
    float *sum = context.scratch(thread), *buffer = sum + D;
    const int64_t b = token / sums.T, t = token % sums.T;
    for (int64_t group = 0; group < sums.H; ++group) {
      std::fill_n(sum, D, 0.0F);
      for (int64_t h = group * group_size; h < (group + 1) * group_size; ++h)
        add_rows(sum, sum, read_row(memory_of(inp), inp.element(b, t, h), D, buffer), D);
      store_vectors(sums, b, group, t, 1, sum);
    }
  });
}

}  // namespace

int64_t scratch_floats(const AttentionForward& op) { return scratch_of_head(op.qkv); }
int64_t scratch_floats(const AttentionBackward& op) { return scratch_of_head(op.qkv); }

void run(const Context& context, const AttentionForward& given) {
  AttentionForward op = given;
  op.first_query += value_of(op.offset);
  context.need_scratch("attention_forward", scratch_floats(op));
  for_each_head(context, op, op.heads,
                [&](const Panels& panels, const Head& head) { head_forward(panels, head, op); });
}

void run(const Context& context, const AttentionBackward& op) {
  context.need_scratch("attention_backward", scratch_floats(op));
  const HeadVectors &q = op.qkv.q, &k = op.qkv.k;
  BiasSums bias_sums(op);
  Qkv gradients = op.dqkv;
  std::vector<char> of_heads;  // keys' and values' gradients, of each head of a group
  if (k.H < q.H) {
    const int64_t num_bytes = k.num_bytes() / k.H * q.H;
    of_heads.resize(static_cast<size_t>(2 * num_bytes));
    gradients.k = head_vectors(of_heads.data(), q.dtype, q.B, k.T, q.H, q.D);
    gradients.v = head_vectors(of_heads.data() + num_bytes, q.dtype, q.B, k.T, q.H, q.D);
  }
  for_each_head(context, op, Heads{}, [&](const Panels& panels, const Head& head) {
    head_backward(panels, head, op, gradients, bias_sums);
  });
  bias_sums.store(op.dqkv_bias, q.B, q.H, op.accumulate);
  if (k.H == q.H) return;
  sum_groups(context, op.dqkv.k, gradients.k);
  sum_groups(context, op.dqkv.v, gradients.v);
}

}  // namespace weft::cpu
