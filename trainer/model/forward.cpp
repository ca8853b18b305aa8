// Forward of one micro-batch.
#include "indexed_dataset/base/process/crash_point.h"
#include "trainer/model/model.h"

namespace weft {

// Each layer waits for its own parameters while those of the next one are gathered.
void Model::forward(const MicroBatch& batch, bool training, ParameterGatherer* gatherer) {
  const ModelChunk& chunk = chunk_of(batch);
  const auto wait_for_parameters = [&](int64_t i) {
    if (gatherer) gatherer->wait_from(arena_end(chunk, i), arena_end(chunk, i + 1));
  };
  wait_for_parameters(0);
  if (chunk.has_embedding) forward_embedding(batch);
  for (int64_t i = 0; i < chunk.num_layers; ++i) {
    wait_for_parameters(i + 1);
    const auto scope = layer_scope(batch, "forward", chunk.first_layer + i);
    crash_point("layer_forward");
    forward_layer(layer(batch, i, training ? Phase::kForward : Phase::kEvaluation),
                  branch_before(batch, i, training));
  }
  forward_end(batch, training);
}

void Model::forward_embedding(const MicroBatch& batch) {
  const ModelShape& m = shape_.model;
  const Norm norm = m.has_embedding_norm ? embedding_norm(batch) : Norm{};
  const Tensor words = m.has_embedding_norm ? norm.sum : stream_.branch();
  backend_.run(EmbeddingForward{
      .out = view(stream_.partials_of(words), {m.micro_batch_size, m.seq_length, m.hidden_size}),
      .tokens = batch.tokens,
      .word = chunk_of(batch).weights.word,
      .first_word = shape_.first_word()});
  stream_.sum_partials(words);
  if (m.has_embedding_norm) stream_.recompute(norm);
  if (!batch.positions) return;
  // The stream begins with the positions, to which the first layer adds the words.
  backend_.run(EmbeddingForward{.out = view(activations_.input(batch.slot),
                                            {m.micro_batch_size, m.seq_length, m.hidden_size}),
                                .tokens = batch.positions,
                                .word = chunk_of(batch).weights.position});
}

void Model::forward_layer(const Layer& layer, const Branch& in, bool computes_branch) {
  attention_.forward(layer, forward_norm(in, layer.norm1(), layer.qkv));
  mlp_.forward(layer, forward_norm(attention_branch(layer), layer.norm2(), layer.fc1),
               computes_branch);
}

// Ranks that share rows gather a norm's output before it is quantized.
LinearLayers::Input Model::forward_norm(const Branch& branch, const Norm& norm,
                                        const LinearLayers::Context& next) {
  const Fp8Output fp8 =
      shape_.shares_rows() ? Fp8Output{} : linears_.fp8_input(next, shape_.num_rows());
  const bool is_fp8_alone = fp8.rows && linears_.keeps_input(next.name);
  stream_.forward(branch, norm, is_fp8_alone ? Tensor() : norm.out, fp8);
  if (fp8.rows) return {.fp8 = fp8.rows};
  return {.rows = stream_.gather_rows(norm.out)};
}

// Adds the last layer's branch; with the head, computes the logits.
void Model::forward_end(const MicroBatch& batch, bool training) {
  const Norm norm = final_norm(batch);
  stream_.forward(branch_before(batch, chunk_of(batch).num_layers, training), norm, norm.out);
  if (chunk_of(batch).has_head) loss_.forward_logits(head(batch));
}

// The first layer normalises its input as it was stored, which gives the bits of forward, where the
// same operation stored it. The last product of the group is not needed again.
void Model::recompute_layers(const MicroBatch& batch, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const Layer again = layer(batch, i, Phase::kBackward);
    const Branch in = i > begin ? branch_before(batch, i, /*training=*/true)
                                : Branch{.residual = again.activations.residual};
    forward_layer(again, in, /*computes_branch=*/i + 1 < end);
  }
}

}  // namespace weft
