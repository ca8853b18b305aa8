// The output layer and the loss: logits of the whole micro-batch or of a chunk of its tokens at a
// time, their cross entropy over the ranks that share the vocabulary, and backward to the final
// norm.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "trainer/model/micro_batch.h"
#include "trainer/model/residual_stream.h"

namespace weft {

// How a micro-batch's losses become a number, and gradients.
struct LossOptions {
  float scale = 1;          // of the sum of losses
  bool accumulate = false;  // The sum is added to what is there.
  bool has_gradient = false;
  float gradient_scale = 1;
  Tensor most_likely = {};  // (N) int32, or empty: gets the token with the largest logit of each
};

class Loss {
 public:
  // What the output layer reads, and the gradient of its weight.
  struct Head {
    Tensor inp;              // (R,C): the final norm's output
    Tensor weight, dweight;  // (Vp/tp, C)
  };

  // `logits_chunk` as in ActivationOptions. All references must outlive this.
  Loss(Backend& backend, Communicator& tensor_parallel, const LocalShape& shape,
       ResidualStream& stream, int64_t logits_chunk)
      : backend_(backend),
        tensor_parallel_(tensor_parallel),
        shape_(shape),
        stream_(stream),
        logits_chunk_(logits_chunk) {}
  void for_each_buffer(const AddBuffer& add);

  // Computes the logits of the first chunk.
  void forward_logits(const Head& head);
  // (N,Vp/tp) x, or those of a chunk; after forward() with gradients these are in their place.
  Tensor logits() const { return logits_; }
  // loss (1) fp32 = scale * sum over tokens of loss * mask, after forward_logits(). With gradients
  // the logits are replaced by d(gradient_scale * sum of losses)/d(logits), and backward() must be
  // next: of all chunks but the last one the backward is done here.
  void forward(Tensor loss, const Head& head, const MicroBatch& batch, const LossOptions& options);
  // (N) fp32: that of each token, after forward() of the same batch.
  Tensor losses() const { return losses_; }
  // out (B) fp32 = the mean loss of each sample over its unmasked tokens, after forward() of the
  // same batch; 0 where all are masked.
  void sample_losses(Tensor out, const MicroBatch& batch);
  // Computes the gradient of the head's weight, and that of its input in stream.dnormed().
  void backward(const Head& head, bool accumulate);

 private:
  // A chunk of the N tokens, whose logits are in memory.
  struct Tokens {
    int64_t first = 0, count = 0;
  };
  Tokens chunk_at(int64_t first) const;
  Tokens last_chunk() const;
  // The logits of a chunk lie at the beginning of logits_.
  Tensor logits_of(Tokens tokens) const { return rows_of(logits_, 0, tokens.count); }
  void multiply(const Head& head, Tokens tokens);
  void backward_input(const Head& head, Tokens tokens);
  void backward_weight(const Head& head, Tokens tokens, bool accumulate);
  void cross_entropy(Tokens tokens, const MicroBatch& batch, const LossOptions& options);

  Backend& backend_;
  Communicator& tensor_parallel_;
  const LocalShape& shape_;
  ResidualStream& stream_;
  const int64_t logits_chunk_;
  Tensor logits_, losses_, statistics_;  // (N,Vp/tp), (N), (tp,N,3); the first and last of a chunk
};

}  // namespace weft
