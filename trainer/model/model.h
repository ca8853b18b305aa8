// A rank's chunk of the GPT model as Megatron builds it: explicit forward and backward over one
// micro-batch, written for any sharded size. [Radford et al. 2019; Brown et al. 2020; Megatron-LM
// megatron/core/models/gpt]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/config/model_shape.h"
#include "trainer/model/chunk.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

// B samples on the device. `iteration` and `first_sample` key dropout, so that masks do not depend
// on the size of micro-batches or on the topology.
struct MicroBatch {
  Tensor tokens;     // (B,T) int32
  Tensor targets;    // (B,T) int32
  Tensor loss_mask;  // (B,T) fp32, or empty: all ones
  int64_t iteration = 0;
  int64_t first_sample = 0;  // position of the first sample in the global batch
};

// All weights of this rank, or all their gradients, as views into an arena. Shapes are those of the
// tensor-parallel rank.
struct LayerParameters {
  Tensor ln1_weight, ln1_bias;    // (C)
  Tensor qkv_weight, qkv_bias;    // (3*H*D/tp, C), (3*H*D/tp)
  Tensor proj_weight, proj_bias;  // (C, H*D/tp), (C)
  Tensor ln2_weight, ln2_bias;    // (C)
  Tensor fc1_weight, fc1_bias;    // (F/tp, C), (F/tp)
  Tensor fc2_weight, fc2_bias;    // (C, F/tp), (C)
};
struct ModelParameters {
  Tensor word, position;                  // (Vp/tp, C), (S, C)
  std::vector<LayerParameters> layers;    // of the rank's chunk
  Tensor final_ln_weight, final_ln_bias;  // (C)
  ModelParameters() = default;
  ModelParameters(const ParameterTable& table, Tensor arena);
};

// The tensors of one layer that backward needs: 32*C bytes per token in bf16 (for F = 4C), without
// the statistics. The outputs of the branches are not kept.
struct LayerActivations {
  Tensor residual;           // (N,C)     input of LN1 and of the skip connection
  Tensor ln1, mean1, rstd1;  // (N,C), (N), (N)
  Tensor qkv, att, lse;      // (B,T,H/tp,3,D), (B,T,H/tp,D), (B,H/tp,T)
  Tensor kept;               // (B,H/tp,words) dropout's bits in attention; empty without dropout
  Tensor residual_mid;       // (N,C)     input of LN2
  Tensor ln2, mean2, rstd2;  // (N,C), (N), (N)
  Tensor fc1_pre, fc1;       // (N,F/tp)  before and after GELU
};

class Model {
 public:
  // Plans the model's buffers in `plan`; the model is usable after plan.allocate() and bind(). All
  // references must outlive the model. Throws std::invalid_argument for a layout that is not built
  // (more than one rank).
  Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
        const ParallelLayout& layout, MemoryPlan& plan);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // `parameters` (x) and `gradients` (fp32) are allocated arenas.
  void bind(const ParameterTable& table, Tensor parameters, Tensor gradients);

  // Computes the logits of a micro-batch. Without `training` there is no dropout.
  void forward(const MicroBatch& batch, bool training);
  // (N,Vp/tp) x; after loss(gradient) they are the gradients of the logits.
  Tensor logits() const { return logits_; }

  // loss (1) fp32 = loss_scale * sum over tokens of loss * mask, plus `loss` where `accumulate`.
  // With `gradient` the logits are replaced by d(gradient_scale * sum of losses)/d(logits).
  void loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate, bool gradient,
            float gradient_scale);

  // Computes the gradients of all parameters, after forward(training) and loss(gradient) of the
  // same batch. They are added to what is there where `accumulate`. `reducer`, if it is given, is
  // told when the gradients of a layer are enqueued for good.
  void backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer = nullptr);

  // Returns the sizes that the backend's workspace must serve for this model on this rank.
  WorkspaceShape workspace_shape(int64_t num_parameters) const;

 private:
  enum class Op : uint64_t { kEmbedding = 0, kAttention = 1, kAttentionBranch = 2, kMlpBranch = 3 };
  Dropout hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const;
  Dropout attention_dropout(const MicroBatch& batch, int64_t layer) const;
  Heads own_heads() const;
  float attention_scale() const;
  // A residual branch that is computed but not yet added to the stream: the operation that adds it
  // also applies the LayerNorm of what comes next.
  struct Branch {
    Tensor residual;     // (N,C), or empty: the embedding begins the stream
    Tensor output;       // (N,C), without bias; or empty: a later stage begins with a whole sum
    Tensor bias, dbias;  // (C), or the table of positions (S,C)
    int64_t bias_period = 1;
    Dropout dropout;
  };
  // Returns what layer `i` of the chunk begins with, and for i == num_layers what the chunk ends
  // with. In backward, output's memory gets the gradient of the branch where there is dropout.
  Branch branch_before(int64_t i, const MicroBatch& batch, bool training) const;
  Branch attention_branch(int64_t i, const MicroBatch& batch, bool training) const;
  // Where backward writes the gradient of a branch. It is empty without dropout: then the gradient
  // along the skip connection is that of the branch, too, and no copy is written.
  Tensor dbranch_target() const { return shape_.hidden_dropout > 0 ? branch_ : Tensor(); }
  Tensor dbranch() const { return shape_.hidden_dropout > 0 ? branch_ : dresidual_; }

  void plan_buffers(MemoryPlan& plan);
  void forward_layer(int64_t i, const MicroBatch& batch, bool training);
  void forward_end(const MicroBatch& batch, bool training);
  void backward_end(const MicroBatch& batch, bool accumulate);
  void backward_layer(int64_t i, const MicroBatch& batch, bool accumulate);
  Tensor embedded(Tensor rows) const;  // (N,C) as (B,T,C)
  void reduce_over_tensor_parallel(Tensor partial);

  Backend& backend_;
  Communicator& tensor_parallel_;
  ModelShape shape_;
  ParallelLayout layout_;
  Chunk chunk_;
  int64_t heads_, ffn_, vocab_rows_;  // H/tp, F/tp, Vp/tp

  ModelParameters weights_, gradients_;
  std::vector<int64_t> arena_ends_;       // per layer: behind its sharded parameters in the arenas
  std::vector<LayerActivations> layers_;  // of the chunk
  Tensor final_residual_, final_ln_, final_mean_, final_rstd_;  // (N,C), (N,C), (N), (N)
  Tensor logits_, losses_;                                      // (N,Vp/tp), (N)
  Tensor branch_;     // (N,C) output of the embedding, proj or fc2; in backward its gradient
  Tensor dresidual_;  // (N,C) gradient along the skip connection
  Tensor dnormed_;    // (N,C) gradient of a LayerNorm's output, or of the attention's output
  Tensor dwide_;      // (N, max(F, 3*H*D)/tp) gradient of fc1's or qkv's output
};

}  // namespace weft
