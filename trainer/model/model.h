// A rank's chunks of the GPT model as Megatron builds it: explicit forward and backward of a chunk
// over one micro-batch, written for any sharded size. [Radford et al. 2019; Brown et al. 2020;
// Megatron-LM megatron/core/models/gpt]
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/config/model_shape.h"
#include "trainer/model/chunk.h"
#include "trainer/model/layer_linears.h"
#include "trainer/model/parameters.h"
#include "trainer/model/recompute.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/parallel_layout.h"
#include "trainer/parallel/parameter_gatherer.h"
#include "trainer/ranks/flight_recorder.h"

namespace weft {

// The activations that a rank keeps for backward. They decide over memory and time, and chunks of
// logits over the order of sums, too.
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
};

// B samples on the device. `iteration` and `first_sample` key dropout, so that masks do not depend
// on the size of micro-batches or on the topology.
struct MicroBatch {
  Tensor tokens;     // (B,T) int32; of the chunk with the embedding, else empty
  Tensor targets;    // (B,T) int32; of the chunk with the head, else empty
  Tensor loss_mask;  // (B,T) fp32, or empty: all ones
  // (B,T,2) int32: the documents of the tokens; empty where the shape needs none
  Tensor document_bounds;
  // (L,4,2) fp32, or empty: forward adds the errors of fp8 products there (LayerLinears::Place)
  Tensor fp8_errors;
  int64_t iteration = 0;
  int64_t first_sample = 0;    // position of the first sample in the global batch
  int64_t chunk = 0;           // of the rank, which computes it
  int64_t slot = 0;            // where its activations are kept for backward
  int64_t gradient_slot = 0;   // where the gradient of the chunk's output is
  int64_t embedding_slot = 0;  // where the embedding is kept for backward, of the chunk that has it
  FlightRecorder* recorder = nullptr;  // gets the layers as operations, if there is one
};

// Records the work on a layer of the model, where the micro-batch has a recorder.
inline FlightRecorder::Scope layer_scope(const MicroBatch& batch, const char* pass, int64_t layer) {
  std::string name;
  if (batch.recorder != nullptr) name = pass + (" of layer " + std::to_string(layer));
  return {batch.recorder, std::move(name)};
}

// All weights of a chunk, or all their gradients, as views into an arena. Shapes are those of the
// tensor-parallel rank. Biases that the model lacks are empty: those of norms in an RMSNorm, too.
struct LayerParameters {
  Tensor ln1_weight, ln1_bias;    // (C)
  Tensor qkv_weight, qkv_bias;    // ((H+2G)*D/tp, C), ((H+2G)*D/tp)
  Tensor proj_weight, proj_bias;  // (C, H*D/tp), (C)
  Tensor ln2_weight, ln2_bias;    // (C)
  Tensor fc1_weight, fc1_bias;    // (F/tp, C), (F/tp); of a gated linear unit 2F/tp rows
  Tensor fc2_weight, fc2_bias;    // (C, F/tp), (C)
};
struct ModelParameters {
  Tensor word, position;                          // (Vp/tp, C), (S, C); no positions: empty
  Tensor embedding_ln_weight, embedding_ln_bias;  // (C); empty where words are not normalised
  Tensor head;                                    // (Vp/tp, C): `word` where it is tied
  std::vector<LayerParameters> layers;
  Tensor final_ln_weight, final_ln_bias;  // (C)
  ModelParameters() = default;
  ModelParameters(const ParameterTable& table, const Chunk& chunk, Tensor arena);
};

// The tensors of one layer that backward needs: 32*C bytes per token in bf16 (for F = 4C), 36*C
// with an fp32 residual stream, 27*C with fp8 (gradients of weights, too), without the statistics.
// The outputs of the branches are not kept. With fp8 the inputs of products are kept in fp8
// (LayerLinears::keeps_input); then ln1, ln2 and a GLU's output, which backward needs for nothing
// else, lie in scratch. R is the number of this rank's rows of the residual stream: N, or N/tp with
// sequence parallelism. The stream, and the gradients along it, have the type r: x, or fp32
// (ModelShape::residual_dtype).
struct LayerActivations {
  Tensor residual;           // (R,C) r   input of LN1 and of the skip connection
  Tensor ln1, mean1, rstd1;  // (R,C), (R), (R); an RMSNorm has no mean
  Tensor qkv, att, lse;      // (B,T,G/tp,R+2,D) with G*R == H, (B,T,H/tp,D), (B,H/tp,T)
  Tensor kept;               // (B,H/tp,words) dropout's bits in attention; empty without dropout
  Tensor residual_mid;       // (R,C) r   input of LN2
  Tensor ln2, mean2, rstd2;  // (R,C), (R), (R)
  // (N,F/tp)  before and after GELU; before a GLU (N,2F/tp). With fp8 GELU's output may be left out.
  Tensor fc1_pre, fc1;
  Tensor fp8_scaling;  // (4,4) fp32: scales of the linear layers' inputs; empty without fp8
  // (I,N) e4m3, by LayerLinears::Name: those inputs, transposed; empty where they are not kept
  std::array<Tensor, LayerLinears::kNum> fp8_inputs;
};

// What backward needs of a LayerNorm of the word embedding.
struct EmbeddingActivations {
  Tensor words, mean, rstd;  // (R,C), (R), (R)
};

class Model {
 public:
  // Plans the model's buffers in `plan`; the model is usable after plan.allocate() and bind(). All
  // references must outlive the model. Throws std::invalid_argument for sizes that do not divide.
  Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
        const ParallelLayout& layout, const ActivationOptions& activations, MemoryPlan& plan);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // `parameters` (x) and `gradients` (fp32) are allocated arenas. From here on `tensor_parallel`
  // must be the group of the layout; to plan, a group of one serves too.
  void bind(const ParameterTable& table, Tensor parameters, Tensor gradients);
  // Uploads the angles of rotary positions and ALiBi's slopes, once.
  void fill_tables() {
    fill_angles();
    fill_slopes();
  }

  // From here on micro-batches have sequences of this length, at the beginnings of the buffers.
  // Throws std::invalid_argument for one that is longer than the shape's, or shorter than two
  // tokens, and for one whose rows ranks cannot share.
  void set_sequence_length(int64_t seq_length);

  // The products of the layers, whose fp8 copies of weights follow the weights only when told so.
  LayerLinears& linears() { return linears_; }

  const Chunk& chunk(int64_t idx) const { return parts_[static_cast<size_t>(idx)].chunk; }
  bool has_embedding() const { return parts_.front().chunk.has_embedding; }
  bool has_head() const { return parts_.back().chunk.has_head; }
  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }

  // Pipeline stages exchange the residual stream, (R,C) r, a whole sum. input() is what the
  // stage before sends; it must be there before forward() of the micro-batch in that slot. output()
  // is what forward() leaves for the stage after. output_gradient() must be there before
  // backward(), which leaves input_gradient(), without gradient slots in the same memory.
  Tensor input(int64_t slot) const;
  Tensor output() const { return final_residual_; }
  Tensor output_gradient(int64_t gradient_slot) const {
    return output_gradients_.empty() ? dresidual_
                                     : output_gradients_[static_cast<size_t>(gradient_slot)];
  }
  Tensor input_gradient() const { return dresidual_; }

  // Computes the logits of a micro-batch (of the first tokens), or without the head the output of
  // the chunk. Without `training` there is no dropout. `gatherer`, if it is given, is asked for the
  // parameters of each layer before they are read.
  void forward(const MicroBatch& batch, bool training, ParameterGatherer* gatherer = nullptr);
  // (N,Vp/tp) x, or one chunk of the N tokens; after loss(gradient) they are the gradients of the
  // logits.
  Tensor logits() const { return logits_; }

  // loss (1) fp32 = loss_scale * sum over tokens of loss * mask, plus `loss` where `accumulate`.
  // With `gradient` the logits are replaced by d(gradient_scale * sum of losses)/d(logits), and
  // backward() of the same batch, with the same `accumulate`, must come next: of all chunks of
  // logits but the last one the backward through the head is done here.
  void loss(Tensor loss, const MicroBatch& batch, float loss_scale, bool accumulate, bool gradient,
            float gradient_scale);
  // out (B) fp32 = the mean loss of each sample over its unmasked tokens, after loss() of the same
  // batch; 0 where all are masked.
  void sample_losses(Tensor out, const MicroBatch& batch);

  // Computes the gradients of the chunk's parameters, after forward(training) of the same batch,
  // and loss(gradient) or with output_gradient(). They are added to what is there where
  // `accumulate`. `reducer`, if it is given, is told when the gradients of a layer are enqueued for
  // good.
  void backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer = nullptr);

 private:
  // A chunk with its views into the arenas. `arena_begins` and `arena_ends` say where the sharded
  // parameters of each of its layers begin and end there. `arena_begins` has one entry more: the
  // beginning of the first layer of the rank's next chunk, or 0, the arena's, after the last chunk.
  struct Part {
    Chunk chunk;
    int64_t layers_before = 0;  // of the rank's chunks before this one
    ModelParameters weights = {}, gradients = {};
    std::vector<int64_t> arena_begins = {}, arena_ends = {};
  };
  // These are of the chunk that the present micro-batch passes.
  const Part& part() const { return parts_[part_]; }
  const Chunk& chunk() const { return part().chunk; }
  const ModelParameters& weights() const { return part().weights; }
  const ModelParameters& gradients() const { return part().gradients; }
  void select(const MicroBatch& batch) {
    part_ = static_cast<size_t>(batch.chunk);
    slot_ = static_cast<size_t>(batch.slot);
    embedding_slot_ = static_cast<size_t>(batch.embedding_slot);
    fp8_errors_ = batch.fp8_errors;
  }

  enum class Op : uint64_t { kEmbedding = 0, kAttention = 1, kAttentionBranch = 2, kMlpBranch = 3 };
  Dropout hidden_dropout(const MicroBatch& batch, int64_t layer, Op op) const;
  Dropout attention_dropout(const MicroBatch& batch, int64_t layer) const;
  // Returns the documents that attention does not leave.
  Tensor attention_documents(const MicroBatch& batch) const {
    return shape_.masks_other_documents ? batch.document_bounds : Tensor();
  }
  // --- from the product for qkv to attention, and back (attention_input.cpp) ---
  // Turns queries and keys by their positions, or back.
  void rotate(Tensor qkv, const MicroBatch& batch, bool inverse);
  // Returns qkv as attention reads it, each query with its key and value: itself, or where queries
  // share them expanded_, which the next call overwrites.
  Tensor expanded(Tensor qkv);
  void fill_angles();  // of rotary positions
  void fill_slopes();  // of ALiBi, those of this rank's heads
  Heads own_heads() const { return {layout_.tp_rank * heads_, shape_.num_heads}; }
  float attention_scale() const { return 1.0F / std::sqrt(static_cast<float>(shape_.head_size)); }
  int64_t first_word() const { return layout_.tp_rank * vocab_rows_; }
  // A residual branch that is computed but not yet added to the stream: the operation that adds it
  // also applies the LayerNorm of what comes next.
  struct Branch {
    Tensor residual;     // (R,C) r, or empty: the embedding begins the stream
    Tensor output;       // (R,C), without bias; or empty: a later stage begins with a whole sum
    Tensor bias, dbias;  // (C), or the table of positions (S,C)
    int64_t bias_period = 1, first_row = 0;
    Tensor document_bounds;  // for the table of positions
    Dropout dropout;
  };
  // Returns what layer `i` of the chunk begins with, and for i == num_layers what the chunk ends
  // with.
  Branch branch_before(int64_t i, const MicroBatch& batch, bool training) const;
  Branch attention_branch(int64_t i, const MicroBatch& batch, bool training) const;
  // The gradient of a branch, in x. Without dropout it is that along the skip connection, and no
  // copy of it is written unless the types differ.
  Tensor dbranch() const { return dbranch_ ? dbranch_ : dresidual_; }
  // (R,C): the output of the embedding, proj or fc2 until it is added to the stream. It lies in the
  // memory of dnormed_, because a layer that is recomputed between the backwards of two others must
  // leave dresidual_ and dbranch_ alone.
  Tensor branch_output() const {
    return {dnormed_.data(), shape_.dtype, {num_rows_, shape_.hidden_size}};
  }

  // Writes the word embedding, and its LayerNorm if there is one, to branch_output(); and back,
  // from the gradient of that branch. Backward leaves branch_output() undefined.
  void forward_embedding(const MicroBatch& batch);
  void backward_embedding(const MicroBatch& batch, bool accumulate);

  // --- rows of the residual stream (residual_stream.cpp) ---
  bool shares_rows() const { return layout_.num_row_shares() > 1; }
  int64_t first_row() const { return shares_rows() ? layout_.tp_rank * num_rows_ : 0; }
  // Returns all N rows of `own` (R,C), which a column-parallel product reads: `own` itself, or
  // where ranks share the rows all_rows_, which the next gathering overwrites.
  Tensor gather_rows(Tensor own);
  // Returns all rows of `own` where they were gathered last, and no others since.
  Tensor rows_gathered_last(Tensor own) const { return shares_rows() ? all_rows_ : own; }
  // A row-parallel product writes its partial sums, N rows, to partials_of(own); sum_partials()
  // puts this rank's rows of the sums over ranks into `own`.
  Tensor partials_of(Tensor own) const { return shares_rows() ? partials_ : own; }
  void sum_partials(Tensor own);
  // The same in two halves: what is enqueued between them runs beside the collective. Backward does
  // that with gradients of weights, which need no sum.
  void start_gathering_rows(Tensor own);
  Tensor gathered_rows(Tensor own);
  void start_summing_partials(Tensor own);
  void wait_for_sums();

  // Returns where the activations of layer `i` lie in the present slot. What is recomputed is
  // shared, and is there until it is computed for another layer: all of a recomputed layer but the
  // residual of its group's first one, or parts of every layer.
  LayerActivations layer(int64_t i) const;
  template <typename Add>
  void for_each_buffer(const Add& add);
  void plan_buffers(MemoryPlan& plan);
  // The pass that computes a layer. Computing it again is a part of backward. Forward leaves no fp8
  // inputs of a layer that is computed again.
  enum class Pass { kEvaluation, kForward, kBackward };
  LayerLinears::Place place(int64_t i, LayerLinears::Name name, Pass pass) const;
  Tensor fp8_error(int64_t i, LayerLinears::Name name) const {
    if (!fp8_errors_) return {};
    const int64_t idx = (chunk().first_layer + i) * LayerLinears::kNum + name;
    return {fp8_errors_.as<float>() + 2 * idx, DType::kFloat32, {2}};
  }
  // Returns the input of fc2.
  LayerLinears::Input mlp_input(const LayerActivations& a) const {
    if (a.fc1) return {.rows = a.fc1};
    return {.pre = a.fc1_pre, .gelu = shape_.gelu};
  }
  // Where a norm writes its output: in x, in fp8 for the product that reads it, or both.
  struct NormOutput {
    Tensor normed = {};
    Fp8Output fp8 = {};
  };
  // Returns that for the norm before `place`, given its place in x.
  NormOutput norm_output(const LayerLinears::Place& place, Tensor normed) const;
  // Returns what the product after the norm reads.
  LayerLinears::Input input_of(const NormOutput& norm);
  // Computes layer `i`, which begins with `in`, up to its last branch or, without
  // `computes_branch`, only what backward needs.
  void forward_layer(int64_t i, const Branch& in, const MicroBatch& batch, Pass pass,
                     bool computes_branch = true);
  // Computes the outputs of a layer's norms, or of its fc1 and activation, where they are not kept.
  void recompute_norm(Tensor normed, Tensor residual, Tensor mean, Tensor rstd, Tensor weight,
                      Tensor bias);
  void recompute_mlp(int64_t i);
  // Computes fc1_pre from its input, and fc1 from fc1_pre.
  void compute_fc1(int64_t i, Pass pass, const LayerLinears::Input& input);
  void activate(const LayerActivations& a);
  // Computes the activations of a group of layers [begin, end) again, with forward's bits.
  void recompute_layers(int64_t begin, int64_t end, const MicroBatch& batch);
  void forward_end(const MicroBatch& batch, bool training);
  // A chunk of the N tokens, whose logits are in memory.
  struct Tokens {
    int64_t first = 0, count = 0;
  };
  Tokens chunk_at(int64_t first) const;
  Tokens last_chunk() const;
  // Returns the rows of these tokens in (N,...) rows.
  static Tensor slice(Tensor rows, Tokens tokens);
  // The logits of a chunk lie at the beginning of logits_.
  Tensor logits_of(Tokens tokens) const { return slice(logits_, {0, tokens.count}); }
  Tensor gradient_of_final_ln() const;  // (R,C)
  // These read what forward_end() has gathered last.
  void forward_head(Tokens tokens);
  void backward_head_input(Tokens tokens);
  void backward_head_weight(Tokens tokens, bool accumulate);
  void cross_entropy(Tokens tokens, const MicroBatch& batch, bool gradient, float gradient_scale);
  void backward_end(const MicroBatch& batch, bool accumulate);
  void backward_layer(int64_t i, const MicroBatch& batch, bool accumulate);
  // Returns rows (N,C) as (B,T,C), and a tensor (B,T,...) as rows.
  Tensor embedded(Tensor rows) const {
    return {rows.data(),
            rows.dtype(),
            {shape_.micro_batch_size, shape_.seq_length, shape_.hidden_size}};
  }
  static Tensor rows(Tensor t, int64_t columns) {
    return {t.data(), t.dtype(), {t.num_elements() / columns, columns}};
  }

  Backend& backend_;
  Communicator& tensor_parallel_;
  ModelShape shape_;  // with the present sequence length
  ParallelLayout layout_;
  RecomputeOptions recompute_;
  int64_t logits_chunk_;
  std::vector<Part> parts_;
  size_t part_ = 0;
  int64_t heads_, groups_, ffn_, vocab_rows_;  // H/tp, G/tp, F/tp, Vp/tp
  int64_t qkv_size_, fc1_size_;                // (H+2G)*D/tp, F/tp or 2F/tp
  int64_t planned_length_;                     // the T of the buffers
  int64_t num_rows_;                           // R
  LayerLinears linears_;

  std::vector<std::vector<LayerActivations>> slots_;  // by slot, of the layers of the longest chunk
  std::vector<EmbeddingActivations> embeddings_;      // by embedding slot
  std::vector<LayerActivations> shared_;              // of the layers of a recomputed group
  size_t slot_ = 0, embedding_slot_ = 0;              // of the present micro-batch
  Tensor fp8_errors_;                                 // likewise
  Tensor final_residual_, final_ln_, final_mean_, final_rstd_;  // (R,C), (R,C), (R), (R)
  Tensor logits_, losses_, statistics_;  // (N,Vp/tp), (N), (tp,N,3); the first and last of a chunk
  // (R,C) gradient of a branch; empty without hidden dropout in a stream of the model's type
  Tensor dbranch_;
  Tensor all_rows_, partials_;  // (N,C) gathered rows, partial sums; where ranks share the rows
  EventId computed_ = 0, rows_gathered_ = 0, summed_ = 0;
  Tensor dresidual_;                      // (R,C) r gradient along the skip connection
  std::vector<Tensor> output_gradients_;  // (R,C) r, by gradient slot
  // Gradient of a LayerNorm's output (R,C), or of the attention's (N,H*D/tp); in forward the
  // branch.
  Tensor dnormed_;
  // (N, max(qkv_size_, fc1_size_)) gradient of fc1's or qkv's output. In forward ln1 and ln2 lie
  // there, one after the other, where they are kept in fp8 alone and a norm does not write them so;
  // for them it may be wider.
  Tensor dwide_;
  // (N,F/tp) gradient of a gated linear unit's output; in forward that output, where it is kept in
  // fp8 alone
  Tensor dglu_;
  Tensor angles_;                // (T,2,P) fp32 of rotary positions, for the T of the buffers
  Tensor slopes_;                // (H/tp) fp32 of ALiBi
  Tensor expanded_, dexpanded_;  // (B,T,H/tp,3,D) where queries share keys and values
};

}  // namespace weft
