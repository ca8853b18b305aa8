#include "kernels/cuda/attention/unfused_attention.h"

#include <algorithm>

#include "kernels/cuda/attention/unfused.h"
#include "kernels/unfused_attention.h"

namespace weft::cuda {
namespace {

using attention::HeadMatrices;
using attention::ScoreBlock;

// The same matrix of several heads, row-major: rows are row_stride elements apart, heads
// head_stride.
struct Matrices {
  void* data;
  DType dtype;
  int64_t row_stride, head_stride;

  Matrices from_row(int64_t row) const { return from_element(row * row_stride); }
  Matrices from_element(int64_t element) const {
    return {static_cast<char*>(data) + element * size_bytes(dtype), dtype, row_stride, head_stride};
  }
};

// Heads of one sample, whose scores are in memory together.
class HeadGroup {
 public:
  HeadGroup(cudaStream_t stream, Gemm& gemm, const Qkv& qkv, void* scratch)
      : stream_(stream),
        gemm_(gemm),
        x_(qkv.q.dtype),
        Tq_(qkv.q.T),
        Tk_(qkv.k.T),
        H_(qkv.q.H),
        sizes_(unfused_scratch(qkv)),
        scratch_(static_cast<char*>(scratch)) {}

  // Calls function() for each group of heads of each sample, all about equally large.
  template <typename Function>
  void for_each(int64_t B, Function function) {
    const int64_t num_groups = (H_ + sizes_.num_heads - 1) / sizes_.num_heads;
    const int64_t size = (H_ + num_groups - 1) / num_groups;
    for (sample_ = 0; sample_ < B; ++sample_) {
      for (first_head_ = 0; first_head_ < H_; first_head_ += size) {
        num_heads_ = std::min(size, H_ - first_head_);
        function();
      }
    }
  }
  int64_t num_keys() const { return Tk_; }
  int64_t num_blocks() const { return (Tq_ + sizes_.num_queries - 1) / sizes_.num_queries; }

  // Returns block number `i` of the queries, which stand from `first_query` on.
  ScoreBlock block(int64_t i, int64_t first_query) const {
    ScoreBlock block;
    block.scores = reinterpret_cast<float*>(scratch_);
    block.gradients = reinterpret_cast<float*>(scratch_ + num_heads_ * sizes_.scores_bytes);
    block.row_stride = sizes_.num_keys;
    block.head_stride = sizes_.num_queries * sizes_.num_keys;
    block.sample = static_cast<int>(sample_);
    block.first_head = static_cast<int>(first_head_);
    block.num_heads = static_cast<int>(num_heads_);
    block.first_query = static_cast<int>(i * sizes_.num_queries);
    block.num_queries =
        static_cast<int>(std::min(sizes_.num_queries, Tq_ - i * sizes_.num_queries));
    block.first_position = static_cast<int>(first_query) + block.first_query;
    return block;
  }
  // Returns a block's matrices of queries and keys: the products, or the numbers of x that replace
  // them.
  Matrices products(const ScoreBlock& block, const float* data) const {
    return {const_cast<float*>(data), DType::kFloat32, block.row_stride, block.head_stride};
  }
  Matrices replaced(const ScoreBlock& block, const float* data) const {
    const int64_t per_float = 4 / size_bytes(x_);
    return {const_cast<float*>(data), x_, per_float * block.row_stride,
            per_float * block.head_stride};
  }

  // Makes query(), key() and value() those of the group; dout() after load_dout().
  void load_qkv(const Qkv& qkv) {
    query_ = load(qkv.q, 0);
    key_ = load(qkv.k, Tq_);
    value_ = load(qkv.v, Tq_ + Tk_);
  }
  void load_dout(const Tensor& dout) { dout_ = load(head_vectors(dout), Tq_ + 2 * Tk_); }
  Matrices query() const { return query_; }
  Matrices key() const { return key_; }
  Matrices value() const { return value_; }
  Matrices dout() const { return dout_; }

  // fp32 memory for each head's (T,columns) of queries (also of the output), keys and values.
  Matrices query_sums() const { return sums(0, Tq_); }
  Matrices key_sums() const { return sums(Tq_, Tk_); }
  Matrices value_sums() const { return sums(Tq_ + Tk_, Tk_); }
  void store(const HeadVectors& to, const Matrices& sums, float factor) const {
    attention::store_heads(stream_, to, static_cast<const float*>(sums.data), matrices(1), factor);
  }

  // c (m,n) = a (m,k) b (n,k)^T
  void product_of_rows(const Matrices& c, const Matrices& a, const Matrices& b, int64_t m,
                       int64_t n) {
    run(c, b, true, a, false, n, m, sizes_.columns, false);
  }
  // c (m,D) = a (m,k) b (k,D)
  void sums_of_rows(const Matrices& c, const Matrices& a, const Matrices& b, int64_t m, int64_t k) {
    run(c, b, false, a, false, sizes_.columns, m, k, false);
  }
  // c (m,D) (+)= a (k,m)^T b (k,D)
  void sums_over_queries(const Matrices& c, const Matrices& a, const Matrices& b, int64_t m,
                         int64_t k, bool accumulate) {
    run(c, b, false, a, true, sizes_.columns, m, k, accumulate);
  }

 private:
  HeadMatrices matrices(int64_t shared_by) const {
    return {sample_, first_head_, num_heads_, sizes_.columns, static_cast<int>(shared_by)};
  }
  // Returns matrices of T rows behind so many other rows of each head.
  Matrices sums(int64_t rows_before, int64_t T) const {
    char* const memory = scratch_ + num_heads_ * 2 * sizes_.scores_bytes;
    return {memory + num_heads_ * rows_before * sizes_.columns * 4, DType::kFloat32, sizes_.columns,
            T * sizes_.columns};
  }
  // Returns the heads' matrices: where they lie, or else copies behind so many other rows of each
  // head.
  Matrices load(const HeadVectors& vectors, int64_t rows_before) const {
    const int64_t size = size_bytes(x_);
    if (!sizes_.packs_heads) {
      const int64_t first = vectors.first_element(sample_, first_head_);
      return {static_cast<char*>(vectors.data) + first * size, x_, vectors.token_stride,
              vectors.group_rows * vectors.row_stride};
    }
    char* const copies = scratch_ + num_heads_ * (2 * sizes_.scores_bytes + sizes_.sums_bytes);
    char* const packed = copies + num_heads_ * rows_before * sizes_.columns * size;
    attention::pack_heads(stream_, packed, vectors, matrices(H_ / vectors.H));
    return {packed, x_, sizes_.columns, vectors.T * sizes_.columns};
  }
  // A row-major matrix is its transpose in BLAS's terms, so the factors change places.
  void run(const Matrices& d, const Matrices& a, bool transpose_a, const Matrices& b,
           bool transpose_b, int64_t m, int64_t n, int64_t k, bool accumulate) {
    GemmProblem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.transpose_a = transpose_a;
    problem.transpose_b = transpose_b;
    problem.inputs = x_;
    problem.accumulate = accumulate;
    problem.batch = {num_heads_,    a.row_stride, a.head_stride, b.row_stride,
                     b.head_stride, d.row_stride, d.head_stride};
    gemm_.run(problem, {.d = d.data, .a = a.data, .b = b.data});
  }

  cudaStream_t stream_;
  Gemm& gemm_;
  DType x_;
  int64_t Tq_, Tk_, H_;
  UnfusedScratch sizes_;
  char* scratch_;  // scores, gradients of scores, sums, copies of heads; each for num_heads_
  int64_t sample_ = 0, first_head_ = 0, num_heads_ = 0;
  Matrices query_ = {}, key_ = {}, value_ = {}, dout_ = {};
};

void forward_block(cudaStream_t stream, HeadGroup& group, const AttentionForward& args,
                   const ScoreBlock& block) {
  const int64_t rows = block.num_queries, keys = block.num_keys(), first = block.first_query;
  group.product_of_rows(group.products(block, block.scores), group.query().from_row(first),
                        group.key(), rows, keys);
  attention::softmax_forward(stream, args, block);
  group.sums_of_rows(group.query_sums().from_row(first), group.replaced(block, block.scores),
                     group.value(), rows, keys);
}

// The first block that is computed sees all keys, so it assigns the sums over queries and others
// add to them.
void backward_block(cudaStream_t stream, HeadGroup& group, const AttentionBackward& args,
                    const ScoreBlock& block) {
  const int64_t rows = block.num_queries, keys = block.num_keys(), first = block.first_query;
  const bool accumulate = keys < group.num_keys();
  const Matrices query = group.query().from_row(first), dout = group.dout().from_row(first);
  group.product_of_rows(group.products(block, block.scores), query, group.key(), rows, keys);
  group.product_of_rows(group.products(block, block.gradients), dout, group.value(), rows, keys);
  attention::softmax_backward(stream, args, block);
  const Matrices probabilities = group.replaced(block, block.scores);
  const Matrices dscores = group.replaced(block, block.gradients);
  group.sums_of_rows(group.query_sums().from_row(first), dscores, group.key(), rows, keys);
  group.sums_over_queries(group.key_sums(), dscores, query, keys, rows, accumulate);
  group.sums_over_queries(group.value_sums(), probabilities, dout, keys, rows, accumulate);
}

}  // namespace

void unfused_attention_forward(cudaStream_t stream, Gemm& gemm, const AttentionForward& args,
                               void* scratch) {
  if (args.dropout.p > 0) attention::draw_kept(stream, args);
  HeadGroup group(stream, gemm, args.qkv, scratch);
  group.for_each(args.qkv.q.B, [&] {
    group.load_qkv(args.qkv);
    for (int64_t i = 0; i < group.num_blocks(); ++i)
      forward_block(stream, group, args, group.block(i, args.first_query));
    group.store(head_vectors(args.out), group.query_sums(), dropout_scale(args.dropout.p));
  });
}

void unfused_attention_backward(cudaStream_t stream, Gemm& gemm, const AttentionBackward& args,
                                void* scratch) {
  HeadGroup group(stream, gemm, args.qkv, scratch);
  group.for_each(args.qkv.q.B, [&] {
    group.load_qkv(args.qkv);
    group.load_dout(args.dout);
    for (int64_t i = group.num_blocks() - 1; i >= 0; --i)
      backward_block(stream, group, args, group.block(i, args.first_query));
    group.store(args.dqkv.q, group.query_sums(), args.scale);
    group.store(args.dqkv.k, group.key_sums(), args.scale);
    group.store(args.dqkv.v, group.value_sums(), dropout_scale(args.dropout_p));
  });
}

}  // namespace weft::cuda
