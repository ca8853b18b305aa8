// A rank's chunks of the GPT model as Megatron builds it: explicit forward and backward of a chunk
// over one micro-batch, written for any sharded size. [Radford et al. 2019; Brown et al. 2020;
// Megatron-LM megatron/core/models/gpt]
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "trainer/model/activations.h"
#include "trainer/model/layer.h"
#include "trainer/model/linear_layers.h"
#include "trainer/model/loss.h"
#include "trainer/model/mlp.h"
#include "trainer/model/residual_stream.h"
#include "trainer/model/self_attention.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/parameter_gatherer.h"

namespace weft {

class Model {
 public:
  // Plans the model's buffers in `plan`; the model is usable after plan.allocate() and bind(). All
  // references must outlive the model. Throws UsageError for sizes that do not divide.
  Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
        const ParallelLayout& layout, const ActivationOptions& activations, MemoryPlan& plan);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  // `parameters` (x) and `gradients` (fp32) are allocated arenas. From here on `tensor_parallel`
  // must be the group of the layout; to plan, a group of one serves too.
  void bind(const ParameterTable& table, Tensor parameters, Tensor gradients);
  // Uploads the tables of positions, once.
  void fill_tables() { attention_.fill_tables(); }

  // From here on micro-batches have sequences of this length, at the beginnings of the buffers.
  // Throws UsageError for one that is longer than the shape's, or shorter than two
  // tokens (one where keys are kept), and for one whose rows ranks cannot share.
  void set_sequence_length(int64_t seq_length);

  // The linear layers, whose fp8 copies of weights follow the weights where weights_changed() says
  // so.
  LinearLayers& linears() { return linears_; }

  const Chunk& chunk(int64_t idx) const { return chunks_[static_cast<size_t>(idx)]; }
  bool has_embedding() const { return chunks_.front().has_embedding; }
  bool has_head() const { return chunks_.back().has_head; }
  int64_t num_slots() const { return activations_.num_slots(); }

  // Pipeline stages exchange the residual stream, (R,C) r, a whole sum. input() is what the
  // stage before sends; it must be there before forward() of the micro-batch in that slot. output()
  // is what forward() leaves for the stage after. output_gradient() must be there before
  // backward(), which leaves input_gradient(), without gradient slots in the same memory.
  Tensor input(int64_t slot) const { return activations_.input(slot); }
  Tensor output() const { return activations_.output().residual; }
  Tensor output_gradient(int64_t gradient_slot) const {
    return stream_.output_gradient(gradient_slot);
  }
  Tensor input_gradient() const { return stream_.dresidual(); }

  // Computes the logits of a micro-batch (of the first tokens), or without the head the output of
  // the chunk. Without `training` there is no dropout. The compute stream waits for the parameters
  // of each layer, if there is a `gatherer`.
  void forward(const MicroBatch& batch, bool training, ParameterGatherer* gatherer = nullptr);
  Tensor logits() const { return loss_.logits(); }
  // Computes the loss of the batch that forward() has computed (Loss::forward). With gradients
  // backward() of it, with the same `accumulate`, must come next.
  void loss(Tensor loss, const MicroBatch& batch, const LossOptions& options) {
    loss_.forward(loss, head(batch), batch, options);
  }
  Tensor token_losses() const { return loss_.losses(); }
  void sample_losses(Tensor out, const MicroBatch& batch) { loss_.sample_losses(out, batch); }

  // Computes the gradients of the chunk's parameters, after forward(training) of the same batch,
  // and loss() with gradients or with output_gradient(). They are added to what is there where
  // `accumulate`. The `reducer`, if there is one, sums those of a layer when they are enqueued.
  void backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer = nullptr);

 private:
  Model(Backend& backend, Communicator& tensor_parallel, const LocalShape& shape,
        const std::vector<Chunk>& chunks, const ActivationOptions& activations, MemoryPlan& plan);

  // A chunk with views of its weights and gradients.
  struct ModelChunk : Chunk {
    int64_t layers_before = 0;  // of the rank's chunks before this one
    ModelParameters weights = {}, gradients = {};
  };
  using Branch = ResidualStream::Branch;
  using Norm = ResidualStream::Norm;

  void for_each_buffer(const AddBuffer& add);
  const ModelChunk& chunk_of(const MicroBatch& batch) const {
    return chunks_[static_cast<size_t>(batch.chunk)];
  }
  // Returns where the sharded parameters of layer `i` of a chunk end in the arenas. There begin
  // those of the layer before it, which may be of the rank's chunk before.
  int64_t arena_end(const ModelChunk& chunk, int64_t i) const {
    return arena_ends_[static_cast<size_t>(chunk.layers_before + i)];
  }
  Layer layer(const MicroBatch& batch, int64_t i, Phase phase) const;
  Norm embedding_norm(const MicroBatch& batch) const;
  Norm final_norm(const MicroBatch& batch) const;
  Loss::Head head(const MicroBatch& batch) const;
  // Returns the branch that layer `i` of the chunk begins with; for i == num_layers it is the one
  // that the chunk ends with.
  Branch branch_before(const MicroBatch& batch, int64_t i, bool training) const;
  Branch attention_branch(const Layer& layer) const;

  void forward_embedding(const MicroBatch& batch);
  // Adds a branch to the stream and normalises the sum; returns what the linear layer that comes
  // next reads.
  LinearLayers::Input forward_norm(const Branch& branch, const Norm& norm,
                                   const LinearLayers::Context& next);
  // Computes a layer, which begins with `in`, up to its last branch or, without `computes_branch`,
  // only what backward needs.
  void forward_layer(const Layer& layer, const Branch& in, bool computes_branch = true);
  void forward_end(const MicroBatch& batch, bool training);
  // Computes the activations of a group of layers [begin, end) again, with forward's bits.
  void recompute_layers(const MicroBatch& batch, int64_t begin, int64_t end);
  void backward_end(const MicroBatch& batch, bool accumulate);
  void backward_layer(const Layer& layer, const Branch& in, bool accumulate);
  void backward_embedding(const MicroBatch& batch, bool accumulate);

  Backend& backend_;
  Communicator& tensor_parallel_;
  LocalShape shape_;
  std::vector<ModelChunk> chunks_;
  std::vector<int64_t> arena_ends_;  // by layer of the rank; two zeros stand for what comes after
  LinearLayers linears_;
  Activations activations_;
  ResidualStream stream_;
  SelfAttention attention_;
  Mlp mlp_;
  Loss loss_;
};

}  // namespace weft
