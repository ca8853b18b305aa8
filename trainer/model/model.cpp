// The model's parts on a rank: its weights in the arenas, the buffers of a micro-batch, and the
// branches between its blocks. forward.cpp and backward.cpp are what it computes.
#include "trainer/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace weft {
namespace {

LocalShape checked(const LocalShape& shape) {
  if (shape.num_tokens() % shape.layout.num_row_shares() != 0) {
    throw std::invalid_argument(
        "model: sequence parallelism: " + std::to_string(shape.num_tokens()) +
        " tokens of a micro-batch are not a multiple of tensor-parallel size " +
        std::to_string(shape.layout.tp_size));
  }
  const ModelShape& model = shape.model;
  if (model.has_position_table && model.seq_length > model.max_positions) {
    throw std::invalid_argument("model: sequence length " + std::to_string(model.seq_length) +
                                " exceeds the position table (" +
                                std::to_string(model.max_positions) + ")");
  }
  return shape;
}

// Returns the inputs whose transposed fp8 copies stay for backward. Where ranks share rows, those
// of qkv and fc1 do not: their inputs are gathered from all ranks, and a copy would be larger than
// a rank's rows in bf16 from four ranks on. Outputs that are computed again are kept in no form.
// Such a run lacks memory, so it keeps no copy of proj's input either, which backward of attention
// needs in bf16 as well.
std::array<bool, LinearLayers::kNum> kept_inputs(const LocalShape& shape,
                                                 const RecomputeOptions& recompute) {
  const bool keeps_norms = !shape.shares_rows() && !recompute.norms;
  std::array<bool, LinearLayers::kNum> keeps = {};
  keeps[LinearLayers::kQkv] = keeps_norms;
  keeps[LinearLayers::kProj] = !recompute.norms && !recompute.recomputes_activation();
  keeps[LinearLayers::kFc1] = keeps_norms && !recompute.mlp;
  keeps[LinearLayers::kFc2] = !recompute.recomputes_activation();
  return keeps;
}

LinearLayers::Sizes linear_sizes(const LocalShape& shape, int64_t num_layers,
                                 const RecomputeOptions& recompute) {
  const int64_t C = shape.model.hidden_size;
  return {.num_layers = num_layers,
          .num_rows = shape.num_tokens(),
          .has_glu = shape.has_glu(),
          .inputs = {C, shape.attention_size(), C, shape.ffn_size()},
          .outputs = {shape.qkv_size(), C, shape.fc1_size(), C},
          .keeps_inputs = kept_inputs(shape, recompute)};
}

int64_t num_layers_of(const std::vector<Chunk>& chunks) {
  int64_t num_layers = 0;
  for (const Chunk& chunk : chunks) num_layers += chunk.num_layers;
  return num_layers;
}

int64_t longest_of(const std::vector<Chunk>& chunks) {
  int64_t num_layers = 0;
  for (const Chunk& chunk : chunks) num_layers = std::max(num_layers, chunk.num_layers);
  return num_layers;
}

}  // namespace

Model::Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
             const ParallelLayout& layout, const ActivationOptions& activations, MemoryPlan& plan)
    : Model(backend, tensor_parallel, checked({shape, layout}), chunks_of(shape, layout),
            activations, plan) {}

Model::Model(Backend& backend, Communicator& tensor_parallel, const LocalShape& shape,
             const std::vector<Chunk>& chunks, const ActivationOptions& activations,
             MemoryPlan& plan)
    : backend_(backend),
      tensor_parallel_(tensor_parallel),
      shape_(shape),
      linears_(backend, shape.model.fp8,
               linear_sizes(shape, num_layers_of(chunks), activations.recompute), plan),
      activations_(shape_, activations, linears_, longest_of(chunks),
                   chunks.size() == 1 ? chunks.front().first_layer : 0,
                   chunks.front().has_embedding, chunks.back().has_head),
      stream_(backend, tensor_parallel, shape_, activations.num_gradient_slots),
      attention_(backend, shape_, linears_, stream_, num_layers_of(chunks),
                 activations.num_kept_keys),
      mlp_(backend, shape_, linears_, stream_),
      loss_(backend, tensor_parallel, shape_, stream_, activations.logits_chunk) {
  int64_t layers_before = 0;
  for (const Chunk& chunk : chunks) {
    chunks_.push_back({chunk, layers_before});
    layers_before += chunk.num_layers;
  }
  for_each_buffer([&](MemoryClass memory_class, const std::string& name, Tensor* tensor,
                      DType dtype, std::initializer_list<int64_t> sizes) {
    plan.add(memory_class, name, tensor, dtype, sizes);
  });
}

void Model::for_each_buffer(const AddBuffer& add) {
  stream_.for_each_buffer(add);
  activations_.for_each_buffer(add);
  if (activations_.has_layers()) attention_.for_each_buffer(add);
  if (has_head()) loss_.for_each_buffer(add);
}

void Model::set_sequence_length(int64_t seq_length) {
  if (seq_length == shape_.model.seq_length) return;
  const int64_t shortest = attention_.keeps_keys() ? 1 : 2;
  if (seq_length < shortest || seq_length > attention_.longest_sequence()) {
    throw std::invalid_argument("model: sequence length " + std::to_string(seq_length) +
                                " in buffers of " + std::to_string(attention_.longest_sequence()));
  }
  LocalShape shape = shape_;
  shape.model.seq_length = seq_length;
  shape_ = checked(shape);
  for_each_buffer(
      [](MemoryClass, const std::string&, Tensor* tensor, DType dtype,
         std::initializer_list<int64_t> sizes) { *tensor = Tensor(tensor->data(), dtype, sizes); });
}

// The last layer comes first in the arenas. The product for qkv has the last parameters of a layer
// that tensor parallelism shards; replicated ones lie at the end of the arena (parameters.h).
void Model::bind(const ParameterTable& table, Tensor parameters, Tensor gradients) {
  if (tensor_parallel_.size() != shape_.layout.tp_size) {
    throw std::logic_error("model: the tensor-parallel group has " +
                           std::to_string(tensor_parallel_.size()) + " ranks instead of " +
                           std::to_string(shape_.layout.tp_size) + ": it can only be planned");
  }
  stream_.create_events();
  arena_ends_.clear();
  for (ModelChunk& chunk : chunks_) {
    chunk.weights = ModelParameters(table, chunk, parameters);
    chunk.gradients = ModelParameters(table, chunk, gradients);
    for (int64_t i = 0; i < chunk.num_layers; ++i) {
      const Parameter& last = table.find("decoder.layers." + std::to_string(chunk.first_layer + i) +
                                         ".self_attention.linear_qkv." +
                                         (shape_.model.has_qkv_bias ? "bias" : "weight"));
      arena_ends_.push_back(last.arena_offset + last.num_elements);
    }
  }
  arena_ends_.insert(arena_ends_.end(), 2, 0);
}

Layer Model::layer(const MicroBatch& batch, int64_t i, Phase phase) const {
  const ModelChunk& chunk = chunk_of(batch);
  const auto idx = static_cast<size_t>(i);
  Layer layer{.number = chunk.first_layer + i,
              .batch = batch,
              .is_training = phase != Phase::kEvaluation,
              .weights = chunk.weights.layers[idx],
              .gradients = chunk.gradients.layers[idx],
              .activations = activations_.layer(batch.slot, i)};
  const bool keeps_inputs =
      phase == Phase::kBackward ||
      (phase == Phase::kForward && !activations_.recompute().recomputes_layer(i));
  const auto context = [&](LinearLayers::Name name) -> LinearLayers::Context {
    const int64_t errors = 2 * (layer.number * LinearLayers::kNum + name);
    return {.layer = chunk.layers_before + i,
            .name = name,
            .is_training = layer.is_training,
            .input_scaling = layer.activations.fp8_scaling,
            .kept_input = keeps_inputs ? layer.activations.fp8_inputs[name] : Tensor(),
            .error = batch.fp8_errors ? range_of(batch.fp8_errors, errors, 2) : Tensor()};
  };
  layer.qkv = context(LinearLayers::kQkv);
  layer.proj = context(LinearLayers::kProj);
  layer.fc1 = context(LinearLayers::kFc1);
  layer.fc2 = context(LinearLayers::kFc2);
  return layer;
}

ResidualStream::Norm Model::embedding_norm(const MicroBatch& batch) const {
  const EmbeddingActivations& a = activations_.embedding(batch.embedding_slot);
  const ModelParameters &w = chunk_of(batch).weights, &dw = chunk_of(batch).gradients;
  return {.sum = a.words,
          .out = stream_.branch(),
          .mean = a.mean,
          .rstd = a.rstd,
          .weight = w.embedding_ln_weight,
          .bias = w.embedding_ln_bias,
          .dweight = dw.embedding_ln_weight,
          .dbias = dw.embedding_ln_bias};
}

ResidualStream::Norm Model::final_norm(const MicroBatch& batch) const {
  const OutputActivations& a = activations_.output();
  if (!chunk_of(batch).has_head) return {.sum = a.residual};
  const ModelParameters &w = chunk_of(batch).weights, &dw = chunk_of(batch).gradients;
  return {.sum = a.residual,
          .out = a.ln,
          .mean = a.mean,
          .rstd = a.rstd,
          .weight = w.final_ln_weight,
          .bias = w.final_ln_bias,
          .dweight = dw.final_ln_weight,
          .dbias = dw.final_ln_bias};
}

Loss::Head Model::head(const MicroBatch& batch) const {
  const ModelChunk& chunk = chunk_of(batch);
  return {activations_.output().ln, chunk.weights.head, chunk.gradients.head};
}

ResidualStream::Branch Model::branch_before(const MicroBatch& batch, int64_t i,
                                            bool training) const {
  const ModelChunk& chunk = chunk_of(batch);
  if (i > 0) {
    const auto before = static_cast<size_t>(i - 1);
    Branch branch{.residual = activations_.layer(batch.slot, i - 1).residual_mid,
                  .output = stream_.branch(),
                  .bias = chunk.weights.layers[before].fc2_bias,
                  .dbias = chunk.gradients.layers[before].fc2_bias};
    if (training)
      branch.dropout = stream_.dropout(batch, chunk.first_layer + i - 1, DropoutSite::kMlpBranch);
    return branch;
  }
  if (!chunk.has_embedding) return {.residual = activations_.input(batch.slot)};
  Branch branch{.output = stream_.branch()};
  if (training) branch.dropout = stream_.dropout(batch, 0, DropoutSite::kEmbedding);
  if (batch.positions) {
    branch.residual = activations_.input(batch.slot);
  } else if (shape_.model.has_position_table) {
    branch.bias = chunk.weights.position;
    branch.dbias = chunk.gradients.position;
    branch.bias_period = shape_.model.seq_length;
    branch.first_row = shape_.first_row();
    if (shape_.model.restarts_positions) branch.document_bounds = batch.document_bounds;
  }
  return branch;
}

ResidualStream::Branch Model::attention_branch(const Layer& layer) const {
  Branch branch{.residual = layer.activations.residual,
                .output = stream_.branch(),
                .bias = layer.weights.proj_bias,
                .dbias = layer.gradients.proj_bias};
  if (layer.is_training)
    branch.dropout = stream_.dropout(layer.batch, layer.number, DropoutSite::kAttentionBranch);
  return branch;
}

}  // namespace weft
