// The activations that a rank keeps from forward for backward, and the memory of what one layer
// needs for a moment.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/model/linear_layers.h"
#include "trainer/model/local_shape.h"
#include "trainer/model/recompute.h"

namespace weft {

// These decide over memory and time, and chunks of logits over the order of sums, too.
struct ActivationOptions {
  int64_t num_slots = 1;  // micro-batches whose activations of a chunk are kept
  // Micro-batches whose embedding is kept, on the stage that has it.
  int64_t num_embedding_slots = 1;
  // Buffers for the gradients of outputs that arrive from the next stage. With 0, the gradient of
  // an output arrives in the buffer of the gradient of the input, which has been sent by then.
  int64_t num_gradient_slots = 0;
  RecomputeOptions recompute = {};
  // Tokens whose logits are in memory at a time; 0: those of a micro-batch.
  int64_t logits_chunk = 0;
  // Tokens of a sample whose keys and values are kept for later ones (generation); 0: none are.
  int64_t num_kept_keys = 0;
};

// The tensors of one layer. Those that are kept take 32*C bytes per token in bf16 (for F = 4C),
// 36*C with an fp32 residual stream, 27*C with fp8 (gradients of weights, too), without the
// statistics. The outputs of the branches are not kept. With fp8 the inputs of products are kept in
// fp8 (LinearLayers::keeps_input). R is the number of this rank's rows of the residual stream: N,
// or N/tp with sequence parallelism. The stream, and the gradients along it, have the type r: x, or
// fp32 (ModelShape::residual_dtype).
struct LayerActivations {
  Tensor residual;           // (R,C) r   input of LN1 and of the skip connection
  Tensor ln1, mean1, rstd1;  // (R,C), (R), (R); an RMSNorm has no mean
  Tensor qk;                 // (B,T,G/tp,R+1,D) with G*R == H: before their norms, if they have any
  Tensor qkv, att, lse;      // (B,T,G/tp,R+2,D), (B,T,H/tp,D), (B,H/tp,T)
  Tensor dropout_mask;       // (B,H/tp,words) bits, of attention; empty without dropout
  Tensor residual_mid;       // (R,C) r   input of LN2
  Tensor ln2, mean2, rstd2;  // (R,C), (R), (R)
  // (N,F/tp)  before and after GELU; before a GLU (N,2F/tp). With fp8 GELU's output may be left out.
  Tensor fc1_pre, fc1;
  Tensor fp8_scaling;  // (4,4) fp32: scales of the linear layers' inputs; empty without fp8
  // (I,N) e4m3, by LinearLayers::Name: those inputs, transposed; empty where they are not kept
  std::array<Tensor, LinearLayers::kNum> fp8_inputs;
  // Gradients in memory that all layers share: of the products' outputs, as qkv and fc1_pre, where
  // the second one overwrites the first, and (N,F/tp) of a GLU's output.
  Tensor dqkv, dfc1_pre, dglu;
};

// The tensors that backward of a LayerNorm of the word embedding needs.
struct EmbeddingActivations {
  Tensor words, mean, rstd;  // (R,C), (R), (R)
};

// The end of a chunk. The norm is there where it has the head.
struct OutputActivations {
  Tensor residual;        // (R,C) r
  Tensor ln, mean, rstd;  // (R,C), (R), (R)
};

class Activations {
 public:
  // Slots have `num_layers` layers, those of the rank's longest chunk. `first_layer` is the number
  // of the first one where the rank has one chunk; several chunks take turns in a slot. `shape`
  // must outlive this.
  Activations(const LocalShape& shape, const ActivationOptions& options,
              const LinearLayers& linears, int64_t num_layers, int64_t first_layer,
              bool has_embedding, bool has_head);
  void for_each_buffer(const AddBuffer& add);

  bool has_layers() const { return num_layers_ > 0; }
  const RecomputeOptions& recompute() const { return recompute_; }
  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }
  // Returns where the activations of layer `i` lie. What is recomputed is shared, and is there
  // until it is computed for another layer: all of a recomputed layer but the residual of its
  // group's first one, or parts of every layer.
  LayerActivations layer(int64_t slot, int64_t i) const;
  const EmbeddingActivations& embedding(int64_t slot) const {
    return embeddings_[static_cast<size_t>(slot)];
  }
  const OutputActivations& output() const { return output_; }
  // The stream at the beginning of a chunk. A chunk of the head alone normalises its input itself.
  Tensor input(int64_t slot) const {
    const std::vector<LayerActivations>& layers = slots_[static_cast<size_t>(slot)];
    return layers.empty() ? output_.residual : layers.front().residual;
  }

 private:
  void add_layer(const AddBuffer& add, LayerActivations& a, const std::string& prefix,
                 unsigned parts) const;
  unsigned kept_parts(int64_t i) const;
  void add_shared(const AddBuffer& add);
  void add_scratch(const AddBuffer& add);

  const LocalShape& shape_;
  const LinearLayers& linears_;
  const RecomputeOptions recompute_;
  const int64_t num_layers_, first_layer_;
  const bool has_head_;
  std::vector<std::vector<LayerActivations>> slots_;  // by slot and layer
  std::vector<LayerActivations> shared_;              // by layer of a recomputed group
  std::vector<EmbeddingActivations> embeddings_;      // by embedding slot
  OutputActivations output_;
  // (N, widest): dqkv or dfc1_pre. In forward ln1 and ln2 lie there, one after the other, where
  // they are kept in fp8 alone and a norm does not write them so.
  Tensor wide_;
  // (N,F/tp): dglu. In forward the GLU's output lies there, where it is kept in fp8 alone.
  Tensor glu_;
};

}  // namespace weft
