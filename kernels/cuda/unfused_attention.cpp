#include "kernels/cuda/unfused_attention.h"

#include <algorithm>

#include "kernels/cuda/attention/unfused.h"
#include "kernels/unfused_attention.h"

namespace weft::cuda {
namespace {

using attention::RunFactors;
using attention::Runs;
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
  HeadGroup(cudaStream_t stream, Gemm& gemm, const Tensor& qkv, void* scratch)
      : stream_(stream),
        gemm_(gemm),
        x_(qkv.dtype()),
        T_(qkv.shape(1)),
        H_(qkv.shape(2)),
        D_(qkv.shape(4)),
        sizes_(unfused_scratch(T_, H_, D_, x_)),
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
  int64_t T() const { return T_; }
  int64_t num_queries() const { return sizes_.num_queries; }

  // Returns the block whose queries begin at `first_query`.
  ScoreBlock block(int64_t first_query) const {
    ScoreBlock block;
    block.scores = reinterpret_cast<float*>(scratch_);
    block.gradients = reinterpret_cast<float*>(scratch_ + num_heads_ * sizes_.scores_bytes);
    block.row_stride = sizes_.num_keys;
    block.head_stride = sizes_.num_queries * sizes_.num_keys;
    block.sample = static_cast<int>(sample_);
    block.first_head = static_cast<int>(first_head_);
    block.num_heads = static_cast<int>(num_heads_);
    block.first_query = static_cast<int>(first_query);
    block.num_queries = static_cast<int>(std::min(sizes_.num_queries, T_ - first_query));
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
  void load_qkv(const Tensor& qkv) { qkv_ = load(qkv, /*num_parts=*/3, 0); }
  void load_dout(const Tensor& dout) { dout_ = load(dout, /*num_parts=*/1, 3); }
  Matrices query() const { return part(qkv_, 0); }
  Matrices key() const { return part(qkv_, 1); }
  Matrices value() const { return part(qkv_, 2); }
  Matrices dout() const { return dout_; }

  // Returns fp32 memory for part `i` of `num_parts` matrices (T,D) of each head.
  Matrices sums(int64_t i, int64_t num_parts) const {
    const int64_t matrix = T_ * sizes_.columns;
    const Matrices all{sums_memory(), DType::kFloat32, sizes_.columns, num_parts * matrix};
    return all.from_element(i * matrix);
  }
  void store_sums(const Tensor& to, int64_t num_parts, const RunFactors& factors) const {
    attention::store_runs(stream_, row_of(to, num_parts), static_cast<float*>(sums_memory()),
                          runs(num_parts), factors, x_);
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
  void* sums_memory() const { return scratch_ + num_heads_ * 2 * sizes_.scores_bytes; }
  Runs runs(int64_t num_parts) const {
    return {T_, num_heads_ * num_parts, num_parts * H_ * D_, D_, sizes_.columns};
  }
  // Returns where the group's heads begin in (B,T,H,parts,D).
  void* row_of(const Tensor& tensor, int64_t num_parts) const {
    const int64_t element = (sample_ * T_ * H_ + first_head_) * num_parts * D_;
    return tensor.as<char>() + element * size_bytes(x_);
  }
  // Returns the first of `num_parts` matrices of each head: in the tensor where rows are aligned,
  // else in a copy after `parts_before` others.
  Matrices load(const Tensor& tensor, int64_t num_parts, int64_t parts_before) const {
    void* rows = row_of(tensor, num_parts);
    if (!sizes_.packs_heads) return {rows, x_, num_parts * H_ * D_, num_parts * D_};
    const int64_t matrix = T_ * sizes_.columns;
    void* packed = scratch_ + num_heads_ * (2 * sizes_.scores_bytes + sizes_.sums_bytes +
                                            parts_before * matrix * size_bytes(x_));
    attention::pack_runs(stream_, packed, rows, runs(num_parts), x_);
    return {packed, x_, sizes_.columns, num_parts * matrix};
  }
  Matrices part(const Matrices& first, int64_t i) const {
    return first.from_element(i * (sizes_.packs_heads ? T_ * sizes_.columns : D_));
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
  int64_t T_, H_, D_;
  UnfusedScratch sizes_;
  char* scratch_;  // scores, gradients of scores, sums, copies of heads; each for num_heads_
  int64_t sample_ = 0, first_head_ = 0, num_heads_ = 0;
  Matrices qkv_ = {}, dout_ = {};
};

void forward_block(cudaStream_t stream, HeadGroup& group, const AttentionForward& args,
                   const ScoreBlock& block) {
  const int64_t rows = block.num_queries, keys = block.num_keys(), first = block.first_query;
  group.product_of_rows(group.products(block, block.scores), group.query().from_row(first),
                        group.key(), rows, keys);
  attention::softmax_forward(stream, args, block);
  group.sums_of_rows(group.sums(0, 1).from_row(first), group.replaced(block, block.scores),
                     group.value(), rows, keys);
}

// The first block that is computed sees all keys, so it assigns the sums over queries and others
// add to them.
void backward_block(cudaStream_t stream, HeadGroup& group, const AttentionBackward& args,
                    const ScoreBlock& block) {
  const int64_t rows = block.num_queries, keys = block.num_keys(), first = block.first_query;
  const bool accumulate = keys < group.T();
  const Matrices query = group.query().from_row(first), dout = group.dout().from_row(first);
  group.product_of_rows(group.products(block, block.scores), query, group.key(), rows, keys);
  group.product_of_rows(group.products(block, block.gradients), dout, group.value(), rows, keys);
  attention::softmax_backward(stream, args, block);
  const Matrices probabilities = group.replaced(block, block.scores);
  const Matrices dscores = group.replaced(block, block.gradients);
  group.sums_of_rows(group.sums(0, 3).from_row(first), dscores, group.key(), rows, keys);
  group.sums_over_queries(group.sums(1, 3), dscores, query, keys, rows, accumulate);
  group.sums_over_queries(group.sums(2, 3), probabilities, dout, keys, rows, accumulate);
}

}  // namespace

void unfused_attention_forward(cudaStream_t stream, Gemm& gemm, const AttentionForward& args,
                               void* scratch) {
  if (args.dropout.p > 0) attention::draw_kept(stream, args);
  const float keep_scale = dropout_scale(args.dropout.p);
  HeadGroup group(stream, gemm, args.qkv, scratch);
  group.for_each(args.qkv.shape(0), [&] {
    group.load_qkv(args.qkv);
    for (int64_t first = 0; first < group.T(); first += group.num_queries())
      forward_block(stream, group, args, group.block(first));
    group.store_sums(args.out, 1, {{keep_scale, keep_scale, keep_scale}});
  });
}

void unfused_attention_backward(cudaStream_t stream, Gemm& gemm, const AttentionBackward& args,
                                void* scratch) {
  HeadGroup group(stream, gemm, args.qkv, scratch);
  group.for_each(args.qkv.shape(0), [&] {
    group.load_qkv(args.qkv);
    group.load_dout(args.dout);
    const int64_t num_blocks = (group.T() + group.num_queries() - 1) / group.num_queries();
    for (int64_t i = num_blocks - 1; i >= 0; --i)
      backward_block(stream, group, args, group.block(i * group.num_queries()));
    group.store_sums(args.dqkv, 3, {{args.scale, args.scale, dropout_scale(args.dropout_p)}});
  });
}

}  // namespace weft::cuda
