// Backward of one micro-batch. Between two blocks the gradients are dresidual() along the skip
// connection and dbranch() of the branch.
#include "trainer/model/model.h"

namespace weft {

void Model::backward(const MicroBatch& batch, bool accumulate, GradientReducer* reducer) {
  const ModelChunk& chunk = chunk_of(batch);
  const RecomputeOptions& recompute = activations_.recompute();
  backward_end(batch, accumulate);
  int64_t begin = chunk.num_layers;  // of the layers whose activations are there
  for (int64_t i = chunk.num_layers - 1; i >= 0; --i) {
    if (i < begin) {
      begin = recompute.group_begin(i);
      if (recompute.recomputes_layer(i)) recompute_layers(batch, begin, i + 1);
    }
    {
      const auto scope = layer_scope(batch, "backward", chunk.first_layer + i);
      backward_layer(layer(batch, i, Phase::kBackward), branch_before(batch, i, /*training=*/true),
                     accumulate);
    }
    if (reducer) reducer->layer(arena_end(chunk, i));
  }
  if (chunk.has_embedding) backward_embedding(batch, accumulate);
}

// Begins with the gradient of the logits, or that of the chunk's output.
void Model::backward_end(const MicroBatch& batch, bool accumulate) {
  const ModelChunk& chunk = chunk_of(batch);
  if (chunk.has_head) loss_.backward(head(batch), accumulate);
  stream_.backward(branch_before(batch, chunk.num_layers, /*training=*/true), final_norm(batch),
                   chunk.has_head ? stream_.dnormed() : Tensor(),
                   chunk.has_head ? Tensor() : stream_.output_gradient(batch.gradient_slot),
                   accumulate);
}

void Model::backward_layer(const Layer& layer, const Branch& in, bool accumulate) {
  const RecomputeOptions& recompute = activations_.recompute();
  if (recompute.norms) stream_.recompute(layer.norm2());
  mlp_.recompute(layer, recompute);
  mlp_.backward(layer, accumulate);
  stream_.backward(attention_branch(layer), layer.norm2(), stream_.dnormed(), stream_.dresidual(),
                   accumulate);

  if (recompute.norms) stream_.recompute(layer.norm1());
  attention_.backward(layer, accumulate);
  stream_.backward(in, layer.norm1(), stream_.dnormed(), stream_.dresidual(), accumulate);
}

void Model::backward_embedding(const MicroBatch& batch, bool accumulate) {
  const ModelChunk& chunk = chunk_of(batch);
  const ModelShape& m = shape_.model;
  Tensor dwords = stream_.dbranch();
  if (m.has_embedding_norm) {
    const Norm norm = embedding_norm(batch);
    dwords = stream_.branch();
    backend_.run(ResidualNormBackward{.dresidual = dwords,
                                      .dweight = norm.dweight,
                                      .dbias = norm.dbias,
                                      .dnormed = stream_.dbranch(),
                                      .residual = norm.sum,
                                      .mean = norm.mean,
                                      .rstd = norm.rstd,
                                      .weight = norm.weight,
                                      .weight_offset = m.norm_weight_offset(),
                                      .accumulate = accumulate});
  }
  // Where the head and the embedding share their weights, the head's gradient came first (and was
  // assigned on the first micro-batch), and the embedding's is added.
  const bool has_gradient_of_head = chunk.has_head && !m.unties_head;
  if (!has_gradient_of_head && !accumulate) backend_.run(Zero{.out = chunk.gradients.word});
  backend_.run(EmbeddingBackward{
      .dword = chunk.gradients.word,
      .dout = view(stream_.gather_rows(dwords), {m.micro_batch_size, m.seq_length, m.hidden_size}),
      .tokens = batch.tokens,
      .first_word = shape_.first_word()});
}

}  // namespace weft
