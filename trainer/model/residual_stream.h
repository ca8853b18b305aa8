// The residual stream of a rank, and the gradients along it: branches are added to it and norms
// read it.
//
// Without sequence parallelism every rank has all N rows, and the partial sums of row-parallel
// products are all-reduced. With it rank r has rows [r*N/tp, (r+1)*N/tp) of norms, residuals and
// dropout: rows are gathered before a column-parallel product, and its partial sums are
// reduce-scattered. [Korthikanti et al. 2022, arXiv:2205.05198, by rows instead of positions]
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/model/local_shape.h"
#include "trainer/model/micro_batch.h"
#include "trainer/parallel/communicator.h"

namespace weft {

class ResidualStream {
 public:
  // A residual branch that is computed but not yet added to the stream: the operation that adds it
  // also applies the norm of what comes next.
  struct Branch {
    Tensor residual = {};          // (R,C) r, or empty: the embedding begins the stream
    Tensor output = {};            // (R,C), without bias; or empty: `residual` is the whole sum
    Tensor bias = {}, dbias = {};  // (C), or the table of positions (S,C)
    int64_t bias_period = 1, first_row = 0;
    Tensor document_bounds = {};  // for the table of positions
    Dropout dropout = {};
  };
  // A LayerNorm or RMSNorm in one micro-batch. Without a weight it stands for the end of a chunk
  // that another one follows.
  struct Norm {
    Tensor sum = {};                  // (R,C) r: the stream, which it normalises
    Tensor out = {};                  // (R,C) x
    Tensor mean = {}, rstd = {};      // (R); an RMSNorm has no mean
    Tensor weight = {}, bias = {};    // (C); an RMSNorm has no bias
    Tensor dweight = {}, dbias = {};  // (C) fp32
  };

  // All references must outlive the stream.
  ResidualStream(Backend& backend, Communicator& tensor_parallel, const LocalShape& shape,
                 int64_t num_gradient_slots)
      : backend_(backend),
        tensor_parallel_(tensor_parallel),
        shape_(shape),
        output_gradients_(static_cast<size_t>(num_gradient_slots)) {}
  void for_each_buffer(const AddBuffer& add);
  void create_events();

  // --- branches ---
  // (R,C): the output of the embedding, proj or fc2 until it is added to the stream.
  Tensor branch() const { return view(branch_, {shape_.num_rows(), shape_.model.hidden_size}); }
  // The same memory in backward: the gradient of a norm's output, or (B,T,H/tp,D) of attention's. A
  // layer that is recomputed between the backwards of two others leaves the gradients of the stream
  // and of its branch alone.
  Tensor dnormed() const { return branch(); }
  Tensor dattention() const;
  // The gradient along the skip connection, (R,C) r.
  Tensor dresidual() const { return dresidual_; }
  // The gradient of a branch, in x. Without dropout it is that along the skip connection, and no
  // copy of it is written unless the types differ.
  Tensor dbranch() const { return dbranch_ ? dbranch_ : dresidual_; }
  // The gradient that arrives from the next chunk.
  Tensor output_gradient(int64_t slot) const {
    return output_gradients_.empty() ? dresidual_ : output_gradients_[static_cast<size_t>(slot)];
  }
  Dropout dropout(const MicroBatch& batch, int64_t layer, DropoutSite site) const;

  // Adds a branch to the stream, which becomes norm.sum, and normalises it into `out`, `fp8`, or
  // both.
  void forward(const Branch& branch, const Norm& norm, Tensor out, const Fp8Output& fp8 = {});
  // Turns the gradient of the norm's output into those of the stream and of the branch before it.
  void backward(const Branch& branch, const Norm& norm, Tensor dout, Tensor dresidual_in,
                bool accumulate);
  // Computes a norm's output again.
  void recompute(const Norm& norm);

  // --- rows that ranks share ---
  // Returns all N rows of `own` (R,C), which a column-parallel product reads: `own` itself, or
  // where ranks share the rows a buffer that the next gathering overwrites.
  Tensor gather_rows(Tensor own);
  // Returns all rows of `own` where they were gathered last, and no others since.
  Tensor rows_gathered_last(Tensor own) const { return shape_.shares_rows() ? all_rows_ : own; }
  // A row-parallel product writes its partial sums, N rows, to partials_of(own); sum_partials()
  // puts this rank's rows of the sums over ranks into `own`.
  Tensor partials_of(Tensor own) const { return shape_.shares_rows() ? partials_ : own; }
  void sum_partials(Tensor own) { sum_partials(own, Stream::kCompute); }
  // The same in two halves: what is enqueued between them runs beside the collective. Backward does
  // that with gradients of weights, which need no sum.
  void start_gathering_rows(Tensor own);
  Tensor gathered_rows(Tensor own);
  void start_summing_partials(Tensor own);
  void wait_for_sums();

 private:
  void sum_partials(Tensor own, Stream stream);

  Backend& backend_;
  Communicator& tensor_parallel_;
  const LocalShape& shape_;
  Tensor branch_;     // (R,C), or (N,H*D/tp) where that is larger
  Tensor dresidual_;  // (R,C) r
  Tensor dbranch_;    // (R,C); empty without hidden dropout in a stream of the model's type
  std::vector<Tensor> output_gradients_;  // (R,C) r, by gradient slot
  Tensor all_rows_, partials_;            // (N,C); where ranks share the rows
  EventId computed_ = 0, rows_gathered_ = 0, summed_ = 0;
};

}  // namespace weft
