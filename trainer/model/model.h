// The GPT model as Megatron builds it: explicit forward and backward over one micro-batch, for any
// sharded size. [Radford et al. 2019; Brown et al. 2020; Megatron-LM megatron/core/models/gpt]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/config/model_shape.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

// B samples on the device.
struct MicroBatch {
  Tensor tokens;     // (B,T) int32
  Tensor targets;    // (B,T) int32
  Tensor loss_mask;  // (B,T) fp32; empty: all ones
  int64_t iteration =
      0;  // with first_sample it keys dropout: masks do not depend on micro-batching or topology
  int64_t first_sample = 0;  // position of the first sample in the global batch
};

// All weights of this rank, or all their gradients: views into an arena. Shapes as tensor-parallel
// rank sees them.
struct LayerParameters {
  Tensor ln1_weight, ln1_bias;    // (C)
  Tensor qkv_weight, qkv_bias;    // (3*H*D/tp, C), (3*H*D/tp)
  Tensor proj_weight, proj_bias;  // (C, H*D/tp), (C)
  Tensor ln2_weight, ln2_bias;    // (C)
  Tensor fc1_weight, fc1_bias;    // (F/tp, C), (F/tp)
  Tensor fc2_weight, fc2_bias;    // (C, F/tp), (C)
};
struct ModelParameters {
  Tensor word, position;  // (Vp/tp, C), (S, C)
  std::vector<LayerParameters> layers;
  Tensor final_ln_weight, final_ln_bias;  // (C)
  ModelParameters() = default;
  ModelParameters(const ParameterTable& table, const ModelShape& shape, Tensor arena);
};

// What backward needs of one layer: 32*C bytes per token in bf16 (for F = 4C), statistics aside.
// Branch outputs are not kept.
struct LayerActivations {
  Tensor residual;           // (N,C)     input of LN1; also of the skip connection
  Tensor ln1, mean1, rstd1;  // (N,C), (N), (N)
  Tensor qkv, att, lse;      // (B,T,H/tp,3,D), (B,T,H/tp,D), (B,H/tp,T)
  Tensor residual_mid;       // (N,C)     input of LN2
  Tensor ln2, mean2, rstd2;  // (N,C), (N), (N)
  Tensor fc1_pre, fc1;       // (N,F/tp)  before and after GELU
};

class Model {
 public:
  // Plans the model's buffers in `plan`; usable after plan.allocate() and bind(). All references
  // must outlive the model. Throws std::invalid_argument for a layout that is not built (tp or pp >
  // 1).
  Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
        const ParallelLayout& layout, MemoryPlan& plan);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // `parameters` x, `gradients` fp32, both allocated.
  void bind(const ParameterTable& table, Tensor parameters, Tensor gradients);

  // Logits of a micro-batch. Without `training` there is no dropout.
  void forward(const MicroBatch& batch, bool training);
  Tensor logits() const { return logits_; }  // (N,Vp/tp) x; dlogits after loss(gradient)

  // loss (1) fp32 = loss_scale * sum over tokens of loss * mask, added to `loss` where accumulate.
  // With `gradient` the logits become d(gradient_scale * sum of losses)/d(logits).
  void loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate, bool gradient,
            float gradient_scale);

  // Gradients of all parameters, after forward(training) and loss(gradient) of the same batch;
  // added where `accumulate`.
  void backward(const MicroBatch& batch, bool accumulate);

  // The workspace that the backend needs for this model on this rank.
  WorkspaceShape workspace_shape(int64_t num_parameters) const;

 private:
  enum class Op : uint64_t { kEmbedding = 0, kAttention = 1, kAttentionBranch = 2, kMlpBranch = 3 };
  Dropout hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const;
  Dropout attention_dropout(const MicroBatch& batch, int64_t layer) const;
  void plan_buffers(MemoryPlan& plan);
  void forward_layer(int64_t layer, const MicroBatch& batch, bool training);
  void backward_layer(int64_t layer, const MicroBatch& batch, bool accumulate);
  void reduce_over_tensor_parallel(Tensor partial);

  Backend& backend_;
  Communicator& tensor_parallel_;
  ModelShape shape_;
  ParallelLayout layout_;
  int64_t heads_, ffn_, vocab_rows_;  // H/tp, F/tp, Vp/tp

  ModelParameters weights_, gradients_;
  std::vector<LayerActivations> layers_;
  Tensor final_residual_, final_ln_, final_mean_, final_rstd_;  // (N,C), (N,C), (N), (N)
  Tensor logits_, losses_;                                      // (N,Vp/tp), (N)
  Tensor branch_;     // (N,C) output of proj or fc2; in backward the gradient of that branch
  Tensor dresidual_;  // (N,C) gradient along the skip connection
  Tensor dnormed_;    // (N,C) gradient of a LayerNorm's output, or of the attention's output
  Tensor dwide_;      // (N, max(F, 3*H*D)/tp) gradient of fc1's or qkv's output
};

}  // namespace weft
