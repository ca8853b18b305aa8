// The model's parts on a rank: its weights in the arenas, and the buffers of a micro-batch.
// forward.cpp and backward.cpp are what it computes.
#include "trainer/model/model.h"

#include <algorithm>
#include <stdexcept>

namespace weft {
namespace {

void check_layout(const ModelShape& shape, const ParallelLayout& layout) {
  const int64_t num_rows = shape.micro_batch_size * shape.seq_length;
  if (num_rows % layout.num_row_shares() != 0) {
    throw std::invalid_argument(
        "model: sequence parallelism: " + std::to_string(num_rows) +
        " tokens of a micro-batch are not a multiple of tensor-parallel size " +
        std::to_string(layout.tp_size));
  }
}

void check_shape(const ModelShape& shape) {
  if (shape.has_position_table && shape.seq_length > shape.max_positions) {
    throw std::invalid_argument("model: sequence length " + std::to_string(shape.seq_length) +
                                " exceeds the position table (" +
                                std::to_string(shape.max_positions) + ")");
  }
}

// R, the rows of the residual stream on a rank.
int64_t rows_of(const ModelShape& shape, const ParallelLayout& layout) {
  return shape.micro_batch_size * shape.seq_length / layout.num_row_shares();
}

// Returns the inputs whose transposed fp8 copies stay for backward. Where ranks share rows, those
// of qkv and fc1 do not: their inputs are gathered from all ranks, and a copy would be larger than
// a rank's rows in bf16 from four ranks on. Outputs that are computed again are kept in no form.
// Such a run lacks memory, so it keeps no copy of proj's input either, which backward of attention
// needs in bf16 as well.
std::array<bool, LayerLinears::kNum> kept_inputs(const ParallelLayout& layout,
                                                 const RecomputeOptions& recompute) {
  const bool keeps_norms = layout.num_row_shares() == 1 && !recompute.norms;
  std::array<bool, LayerLinears::kNum> keeps = {};
  keeps[LayerLinears::kQkv] = keeps_norms;
  keeps[LayerLinears::kProj] = !recompute.norms && !recompute.recomputes_activation();
  keeps[LayerLinears::kFc1] = keeps_norms && !recompute.mlp;
  keeps[LayerLinears::kFc2] = !recompute.recomputes_activation();
  return keeps;
}

LayerLinears::Sizes linear_sizes(const ModelShape& shape, const ParallelLayout& layout,
                                 const RecomputeOptions& recompute) {
  LayerLinears::Sizes sizes{.num_rows = shape.micro_batch_size * shape.seq_length,
                            .has_glu = shape.glu != Glu::kNone};
  for (const Chunk& chunk : chunks_of(shape, layout)) sizes.num_layers += chunk.num_layers;
  const int64_t C = shape.hidden_size, A = shape.num_heads * shape.head_size / layout.tp_size;
  sizes.inputs = {C, A, C, shape.ffn_size / layout.tp_size};
  sizes.outputs = {shape.qkv_size() / layout.tp_size, C, shape.fc1_size() / layout.tp_size, C};
  sizes.keeps_inputs = kept_inputs(layout, recompute);
  return sizes;
}

int64_t longest_of(const std::vector<Chunk>& chunks) {
  int64_t num_layers = 0;
  for (const Chunk& chunk : chunks) num_layers = std::max(num_layers, chunk.num_layers);
  return num_layers;
}

}  // namespace

ModelParameters::ModelParameters(const ParameterTable& table, const Chunk& chunk, Tensor arena) {
  const auto view = [&](const std::string& name) {
    return ParameterTable::slice(arena, table.find(name));
  };
  const auto view_if_there = [&](const std::string& name) {
    return table.try_find(name) ? view(name) : Tensor();
  };
  word = view_if_there("embedding.word_embeddings.weight");
  head = view_if_there("output_layer.weight");
  if (!head) head = word;
  embedding_ln_weight = view_if_there("embedding.word_embeddings_layernorm.weight");
  embedding_ln_bias = view_if_there("embedding.word_embeddings_layernorm.bias");
  position = view_if_there("embedding.position_embeddings.weight");
  if (chunk.has_head) {
    final_ln_weight = view("decoder.final_layernorm.weight");
    final_ln_bias = view_if_there("decoder.final_layernorm.bias");
  }
  for (int64_t i = 0; i < chunk.num_layers; ++i) {
    const std::string prefix = "decoder.layers." + std::to_string(chunk.first_layer + i) + ".";
    layers.push_back({.ln1_weight = view(prefix + "input_layernorm.weight"),
                      .ln1_bias = view_if_there(prefix + "input_layernorm.bias"),
                      .qkv_weight = view(prefix + "self_attention.linear_qkv.weight"),
                      .qkv_bias = view_if_there(prefix + "self_attention.linear_qkv.bias"),
                      .proj_weight = view(prefix + "self_attention.linear_proj.weight"),
                      .proj_bias = view_if_there(prefix + "self_attention.linear_proj.bias"),
                      .ln2_weight = view(prefix + "pre_mlp_layernorm.weight"),
                      .ln2_bias = view_if_there(prefix + "pre_mlp_layernorm.bias"),
                      .fc1_weight = view(prefix + "mlp.linear_fc1.weight"),
                      .fc1_bias = view_if_there(prefix + "mlp.linear_fc1.bias"),
                      .fc2_weight = view(prefix + "mlp.linear_fc2.weight"),
                      .fc2_bias = view_if_there(prefix + "mlp.linear_fc2.bias")});
  }
}

Model::Model(Backend& backend, Communicator& tensor_parallel, const ModelShape& shape,
             const ParallelLayout& layout, const ActivationOptions& activations, MemoryPlan& plan)
    : backend_(backend),
      tensor_parallel_(tensor_parallel),
      shape_(shape),
      layout_(layout),
      recompute_(activations.recompute),
      logits_chunk_(activations.logits_chunk),
      heads_(shape.num_heads / layout.tp_size),
      groups_(shape.num_groups() / layout.tp_size),
      ffn_(shape.ffn_size / layout.tp_size),
      vocab_rows_(shape.padded_vocab_size / layout.tp_size),
      qkv_size_(shape.qkv_size() / layout.tp_size),
      fc1_size_(shape.fc1_size() / layout.tp_size),
      planned_length_(shape.seq_length),
      num_rows_(rows_of(shape, layout)),
      linears_(backend, shape.fp8, linear_sizes(shape, layout, activations.recompute), plan),
      slots_(static_cast<size_t>(activations.num_slots)),
      output_gradients_(static_cast<size_t>(activations.num_gradient_slots)) {
  const std::vector<Chunk> chunks = chunks_of(shape, layout);
  int64_t layers_before = 0;
  for (const Chunk& chunk : chunks) {
    parts_.push_back({chunk, layers_before});
    layers_before += chunk.num_layers;
  }
  if (has_embedding() && shape.has_embedding_norm)
    embeddings_.resize(static_cast<size_t>(activations.num_embedding_slots));
  const int64_t longest = longest_of(chunks);
  for (auto& layers : slots_) layers.resize(static_cast<size_t>(longest));
  shared_.resize(static_cast<size_t>(recompute_.layers_at_once(longest)));
  check_layout(shape, layout);
  check_shape(shape);
  plan_buffers(plan);
}

// Calls add(class, name, tensor, type, shape) for each buffer, in the shape that it has at the
// present sequence length.
template <typename Add>
void Model::for_each_buffer(const Add& add) {
  const int64_t B = shape_.micro_batch_size, T = shape_.seq_length, N = B * T, R = num_rows_;
  const int64_t C = shape_.hidden_size, D = shape_.head_size;
  const DType x = shape_.dtype, r = shape_.residual_dtype(), f = DType::kFloat32;
  const auto num_layers = static_cast<int64_t>(slots_.front().size());
  const auto keep = MemoryClass::kActivations, scratch = MemoryClass::kScratch;
  const auto add_statistics = [&](const std::string& mean, Tensor* mean_tensor,
                                  const std::string& rstd, Tensor* rstd_tensor) {
    if (!shape_.uses_rms_norm) add(keep, mean, mean_tensor, f, {R});
    add(keep, rstd, rstd_tensor, f, {R});
  };
  const auto add_residual = [&](LayerActivations& a, const std::string& prefix) {
    add(keep, prefix + "residual", &a.residual, r, {R, C});
  };
  const auto add_norms = [&](LayerActivations& a, const std::string& prefix) {
    if (!linears_.keeps_input(LayerLinears::kQkv)) add(keep, prefix + "ln1", &a.ln1, x, {R, C});
    if (!linears_.keeps_input(LayerLinears::kFc1)) add(keep, prefix + "ln2", &a.ln2, x, {R, C});
  };
  const auto add_fp8_input = [&](LayerActivations& a, const std::string& name,
                                 LayerLinears::Name linear, int64_t columns) {
    if (linears_.keeps_input(linear))
      add(keep, name, &a.fp8_inputs[linear], DType::kFloat8E4M3, {columns, N});
  };
  const auto add_fp8_inputs = [&](LayerActivations& a, const std::string& prefix) {
    add_fp8_input(a, prefix + "fp8 ln1", LayerLinears::kQkv, C);
    add_fp8_input(a, prefix + "fp8 att", LayerLinears::kProj, heads_ * D);
    add_fp8_input(a, prefix + "fp8 ln2", LayerLinears::kFc1, C);
    add_fp8_input(a, prefix + "fp8 fc1", LayerLinears::kFc2, ffn_);
  };
  const auto add_fc1_pre = [&](LayerActivations& a, const std::string& prefix) {
    add(keep, prefix + "fc1_pre", &a.fc1_pre, x, {N, fc1_size_});
  };
  const auto add_fc1 = [&](LayerActivations& a, const std::string& prefix) {
    if (linears_.keeps_input(LayerLinears::kFc2)) return;
    if (linears_.keeps_gelu() || shape_.glu != Glu::kNone)
      add(keep, prefix + "fc1", &a.fc1, x, {N, ffn_});
  };
  const auto add_rest = [&](LayerActivations& a, const std::string& prefix) {
    add_statistics(prefix + "mean1", &a.mean1, prefix + "rstd1", &a.rstd1);
    add(keep, prefix + "qkv", &a.qkv, x, {B, T, groups_, heads_ / groups_ + 2, D});
    add(keep, prefix + "att", &a.att, x, {B, T, heads_, D});
    add(keep, prefix + "lse", &a.lse, f, {B, heads_, T});
    if (shape_.attention_dropout > 0) {
      add(keep, prefix + "dropout bits", &a.kept, DType::kInt32,
          {B, heads_, attention_mask_words(T)});
    }
    add(keep, prefix + "residual_mid", &a.residual_mid, r, {R, C});
    add_statistics(prefix + "mean2", &a.mean2, prefix + "rstd2", &a.rstd2);
  };
  const auto name_of_slot = [](size_t slot, size_t num_slots) {
    return num_slots > 1 ? "slot " + std::to_string(slot) + " " : "";
  };
  for (size_t slot = 0; slot < embeddings_.size(); ++slot) {
    const std::string of_slot = name_of_slot(slot, embeddings_.size());
    EmbeddingActivations& a = embeddings_[slot];
    add(keep, of_slot + "embedding", &a.words, x, {R, C});
    add(keep, of_slot + "embedding mean", &a.mean, f, {R});
    add(keep, of_slot + "embedding rstd", &a.rstd, f, {R});
  }
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const std::string of_slot = name_of_slot(slot, slots_.size());
    // The layers of several chunks take turns in a slot.
    const int64_t first_layer = parts_.size() == 1 ? chunk().first_layer : 0;
    for (int64_t i = 0; i < num_layers; ++i) {
      LayerActivations& a = slots_[slot][static_cast<size_t>(i)];
      const std::string prefix = of_slot + "layer " + std::to_string(first_layer + i) + " ";
      if (recompute_.group_begin(i) == i) add_residual(a, prefix);
      // Kept of every layer: the input of a last product that is not computed again has its scale
      // here.
      if (linears_.is_fp8()) add(keep, prefix + "fp8 scales", &a.fp8_scaling, f, {4, 4});
      if (recompute_.recomputes_layer(i)) continue;
      add_rest(a, prefix);
      add_fp8_inputs(a, prefix);
      if (!recompute_.norms) add_norms(a, prefix);
      if (!recompute_.mlp) add_fc1_pre(a, prefix);
      if (!recompute_.recomputes_activation()) add_fc1(a, prefix);
    }
  }
  // Layers that are recomputed share these, over all slots.
  for (size_t i = 0; i < shared_.size(); ++i) {
    const std::string prefix = "layer " + std::to_string(i) + " recomputed ";
    if (recompute_.norms) add(keep, "recomputed ln", &shared_[i].ln1, x, {R, C});
    if (recompute_.mlp) add_fc1_pre(shared_[i], "recomputed ");
    if (recompute_.recomputes_activation()) add_fc1(shared_[i], "recomputed ");
    if (recompute_.method == RecomputeOptions::Method::kNone) continue;
    if (i > 0) add_residual(shared_[i], prefix);
    add_rest(shared_[i], prefix);
    add_fp8_inputs(shared_[i], prefix);
    add_norms(shared_[i], prefix);
    add_fc1_pre(shared_[i], prefix);
    add_fc1(shared_[i], prefix);
  }
  add(keep, "final residual", &final_residual_, r, {R, C});
  if (has_head()) {
    add(keep, "final ln", &final_ln_, x, {R, C});
    add_statistics("final mean", &final_mean_, "final rstd", &final_rstd_);
  }
  if (shape_.hidden_dropout > 0 || r != x) add(scratch, "dbranch", &dbranch_, x, {R, C});
  if (shares_rows()) {
    add(scratch, "all rows", &all_rows_, x, {N, C});
    add(scratch, "partial sums", &partials_, x, {N, C});
  }
  add(scratch, "dresidual", &dresidual_, r, {R, C});
  add(scratch, "branch or dnormed", &dnormed_, x, {std::max(R * C, N * heads_ * D)});
  for (Tensor& gradient : output_gradients_) add(scratch, "output gradient", &gradient, r, {R, C});
  if (num_layers > 0) {
    const bool has_norm = linears_.keeps_input(LayerLinears::kQkv);
    add(scratch, "dwide", &dwide_, x, {N, std::max({fc1_size_, qkv_size_, has_norm ? C : 0})});
    if (shape_.glu != Glu::kNone) add(scratch, "dglu", &dglu_, x, {N, ffn_});
    if (groups_ < heads_) {
      add(scratch, "expanded qkv", &expanded_, x, {B, T, heads_, 3, D});
      add(scratch, "expanded dqkv", &dexpanded_, x, {B, T, heads_, 3, D});
    }
    if (shape_.has_alibi) add(scratch, "ALiBi slopes", &slopes_, f, {heads_});
    if (shape_.rotary_size > 0)
      add(scratch, "rotary angles", &angles_, f, {planned_length_, 2, shape_.rotary_size / 2});
  }
  if (has_head()) {
    const int64_t count = chunk_at(0).count;
    add(MemoryClass::kLogits, "logits", &logits_, x, {count, vocab_rows_});
    add(MemoryClass::kLogits, "losses", &losses_, f, {N});
    if (layout_.tp_size > 1) {
      add(MemoryClass::kLogits, "loss statistics", &statistics_, f, {layout_.tp_size, count, 3});
    }
  }
}

void Model::plan_buffers(MemoryPlan& plan) {
  for_each_buffer([&](MemoryClass memory_class, const std::string& name, Tensor* tensor,
                      DType dtype, std::initializer_list<int64_t> shape) {
    plan.add(memory_class, name, tensor, dtype, shape);
  });
}

void Model::set_sequence_length(int64_t seq_length) {
  if (seq_length == shape_.seq_length) return;
  if (seq_length < 2 || seq_length > planned_length_) {
    throw std::invalid_argument("model: sequence length " + std::to_string(seq_length) +
                                " in buffers of " + std::to_string(planned_length_));
  }
  ModelShape shape = shape_;
  shape.seq_length = seq_length;
  check_layout(shape, layout_);
  shape_ = shape;
  num_rows_ = rows_of(shape_, layout_);
  for_each_buffer(
      [](MemoryClass, const std::string&, Tensor* tensor, DType dtype,
         std::initializer_list<int64_t> sizes) { *tensor = Tensor(tensor->data(), dtype, sizes); });
}

LayerActivations Model::layer(int64_t i) const {
  LayerActivations a = slots_[slot_][static_cast<size_t>(i)];
  if (recompute_.recomputes_layer(i)) {
    const Tensor own_residual = a.residual, own_scaling = a.fp8_scaling;
    a = shared_[static_cast<size_t>(i - recompute_.group_begin(i))];
    if (own_residual) a.residual = own_residual;
    a.fp8_scaling = own_scaling;
  } else if (!shared_.empty()) {
    const LayerActivations& parts = shared_.front();
    // The output of one norm is no longer needed where that of the other one is.
    if (recompute_.norms) a.ln1 = a.ln2 = parts.ln1;
    if (recompute_.mlp) a.fc1_pre = parts.fc1_pre;
    if (recompute_.recomputes_activation()) a.fc1 = parts.fc1;
  }
  // Outputs that are kept in fp8 alone lie in memory of gradients that backward of a layer writes
  // later.
  const Tensor norm(dwide_.data(), shape_.dtype, {num_rows_, shape_.hidden_size});
  if (linears_.keeps_input(LayerLinears::kQkv)) a.ln1 = norm;
  if (linears_.keeps_input(LayerLinears::kFc1)) a.ln2 = norm;
  if (linears_.keeps_input(LayerLinears::kFc2)) a.fc1 = dglu_;  // empty without a GLU
  return a;
}

LayerLinears::Place Model::place(int64_t i, LayerLinears::Name name, Pass pass) const {
  const LayerActivations a = layer(i);
  const bool is_kept =
      pass == Pass::kBackward || (pass == Pass::kForward && !recompute_.recomputes_layer(i));
  return {.layer = part().layers_before + i,
          .name = name,
          .is_training = pass != Pass::kEvaluation,
          .input_scaling = a.fp8_scaling,
          .kept_input = is_kept ? a.fp8_inputs[name] : Tensor(),
          .error = fp8_error(i, name)};
}

// A chunk of the head alone normalises its input itself.
Tensor Model::input(int64_t slot) const {
  const std::vector<LayerActivations>& layers = slots_[static_cast<size_t>(slot)];
  return layers.empty() ? final_residual_ : layers.front().residual;
}

void Model::bind(const ParameterTable& table, Tensor parameters, Tensor gradients) {
  if (tensor_parallel_.size() != layout_.tp_size) {
    throw std::logic_error("model: the tensor-parallel group has " +
                           std::to_string(tensor_parallel_.size()) + " ranks instead of " +
                           std::to_string(layout_.tp_size) + ": it can only be planned");
  }
  computed_ = backend_.create_event();
  rows_gathered_ = backend_.create_event();
  summed_ = backend_.create_event();
  for (Part& part : parts_) {
    part.weights = ModelParameters(table, part.chunk, parameters);
    part.gradients = ModelParameters(table, part.chunk, gradients);
    for (int64_t i = 0; i < part.chunk.num_layers; ++i) {
      // The product for qkv has the last parameters of a layer that tensor parallelism shards;
      // replicated ones lie at the end of the arena (parameters.h).
      const Parameter& parameter =
          table.find("decoder.layers." + std::to_string(part.chunk.first_layer + i) +
                     ".self_attention.linear_qkv." + (shape_.has_qkv_bias ? "bias" : "weight"));
      part.arena_ends.push_back(parameter.arena_offset + parameter.num_elements);
    }
  }
  // The last layer comes first in the arenas: a layer begins where the one after it ends, which may
  // be that of the next chunk.
  int64_t end_of_next = 0, begin_of_next = 0;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    part->arena_begins = {end_of_next, begin_of_next};
    if (part->arena_ends.empty()) continue;
    part->arena_begins.insert(part->arena_begins.begin(), part->arena_ends.begin() + 1,
                              part->arena_ends.end());
    end_of_next = part->arena_ends.front();
    begin_of_next = part->arena_begins.front();
  }
}

}  // namespace weft
