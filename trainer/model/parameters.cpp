#include "trainer/model/parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr const char* kWordEmbedding = "embedding.word_embeddings.weight";
constexpr const char* kHead = "output_layer.weight";
const std::string kEmbeddingNorm = "embedding.word_embeddings_layernorm";

void check_divides(const char* what, int64_t size, const char* by, int64_t divisor) {
  if (size % divisor == 0) return;
  throw UsageError(std::string(what) + " (" + std::to_string(size) + ") is not a multiple of " +
                   by + " (" + std::to_string(divisor) + "): every rank needs an equal share");
}

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

using Sizes = std::vector<int64_t>;

// Makes a parameter that is sharded along split_dim, or replicated where that is -1.
Parameter make(std::string name, Sizes global_shape, int split_dim, const ParallelLayout& layout) {
  Parameter p;
  p.name = std::move(name);
  p.global_shape = std::move(global_shape);
  p.shape = p.global_shape;
  p.split_dim = layout.tp_size == 1 ? -1 : split_dim;
  if (p.split_dim >= 0) {
    const auto dim = static_cast<size_t>(split_dim);
    p.shape[dim] /= layout.tp_size;
    p.begin = p.shape[dim] * layout.tp_rank;
    p.end = p.begin + p.shape[dim];
  }
  p.num_elements = p.num_own =
      std::accumulate(p.shape.begin(), p.shape.end(), int64_t{1}, std::multiplies<>());
  p.is_sharded = split_dim >= 0;
  return p;
}

Parameter matrix(std::string name, Sizes global_shape, int split_dim, double init_std,
                 const ParallelLayout& layout) {
  Parameter p = make(std::move(name), std::move(global_shape), split_dim, layout);
  p.init_std = init_std;
  p.decays = true;
  const int64_t cols = p.shape.back();
  p.shape = {p.num_elements / cols, cols};
  return p;
}

Parameter vector(std::string name, Sizes global_shape, int split_dim, float value,
                 const ParallelLayout& layout) {
  Parameter p = make(std::move(name), std::move(global_shape), split_dim, layout);
  p.init_value = value;
  p.shape = {p.num_elements};
  return p;
}

void append_layer(std::vector<Parameter>& parameters, const ModelShape& shape,
                  const ParallelLayout& layout, int64_t layer) {
  const std::string prefix = "decoder.layers." + std::to_string(layer) + ".";
  const int64_t C = shape.hidden_size, F = shape.ffn_size, A = shape.num_heads * shape.head_size;
  const double std = shape.init_method_std;
  // The variances of the 2L residual branches add up; with this factor they make as much as one
  // [Radford et al. 2019, section 2.3].
  const double branch_std = std / std::sqrt(2.0 * static_cast<double>(shape.num_layers));
  const auto add_matrix = [&](const char* name, Sizes sizes, int split_dim, double init_std) {
    parameters.push_back(matrix(prefix + name, std::move(sizes), split_dim, init_std, layout));
    parameters.back().is_layer_matrix = true;
  };
  const auto add_vector = [&](const char* name, Sizes sizes, int split_dim, float value) {
    parameters.push_back(vector(prefix + name, std::move(sizes), split_dim, value, layout));
  };
  // Ranks share gate and up of a gated linear unit alike: each gets F/tp rows of both.
  const bool is_gated = shape.glu != Glu::kNone;
  add_matrix("mlp.linear_fc2.weight", {C, F}, 1, branch_std);
  if (shape.has_biases) add_vector("mlp.linear_fc2.bias", {C}, -1, 0);
  add_matrix("mlp.linear_fc1.weight", is_gated ? Sizes{2, F, C} : Sizes{F, C}, is_gated ? 1 : 0,
             std);
  if (shape.has_biases)
    add_vector("mlp.linear_fc1.bias", is_gated ? Sizes{2, F} : Sizes{F}, is_gated ? 1 : 0, 0);
  const float norm_weight = 1 - shape.norm_weight_offset();
  add_vector("pre_mlp_layernorm.weight", {C}, -1, norm_weight);
  if (!shape.uses_rms_norm) add_vector("pre_mlp_layernorm.bias", {C}, -1, 0);
  add_matrix("self_attention.linear_proj.weight", {C, A}, 1, branch_std);
  if (shape.has_biases) add_vector("self_attention.linear_proj.bias", {C}, -1, 0);
  add_matrix("self_attention.linear_qkv.weight", {shape.qkv_size(), C}, 0, std);
  parameters.back().fused_rows = {shape.num_heads / shape.num_groups() * shape.head_size,
                                  shape.head_size, shape.head_size};
  if (shape.has_qkv_bias) add_vector("self_attention.linear_qkv.bias", {shape.qkv_size()}, 0, 0);
  if (shape.has_qk_norm) {
    const int64_t D = shape.head_size;
    for (const std::string norm : {"self_attention.k_layernorm", "self_attention.q_layernorm"}) {
      add_vector((norm + ".weight").c_str(), {D}, -1, norm_weight);
      parameters.back().sums_over_heads = true;
      if (shape.uses_rms_norm) continue;
      add_vector((norm + ".bias").c_str(), {D}, -1, 0);
      parameters.back().sums_over_heads = true;
    }
  }
  add_vector("input_layernorm.weight", {C}, -1, norm_weight);
  if (!shape.uses_rms_norm) add_vector("input_layernorm.bias", {C}, -1, 0);
}

// Marks the rows from `num_rows` on as padding.
Parameter without_padding(Parameter p, int64_t num_rows) {
  const int64_t cols = p.global_shape[1];
  p.global_shape[0] = num_rows;
  if (p.split_dim == 0) {
    p.begin = std::min(p.begin, num_rows);
    p.end = std::min(p.end, num_rows);
    p.num_own = (p.end - p.begin) * cols;
  } else {
    p.num_own = num_rows * cols;
  }
  return p;
}

}  // namespace

std::vector<Chunk> chunks_of(const ModelShape& shape, const ParallelLayout& layout) {
  std::vector<int64_t> layers = layout.stage_layers;
  const auto num_stages = static_cast<size_t>(layout.num_stages());
  if (layout.num_chunks < 1 || (layout.num_chunks > 1 && layout.pp_size == 1)) {
    throw UsageError("pipeline stages: " + std::to_string(layout.num_chunks) +
                     " chunks on each of " + std::to_string(layout.pp_size) +
                     "; interleaved stages need two ranks at least");
  }
  if (layers.empty()) {
    check_divides("number of layers", shape.num_layers, "pipeline stages", layout.num_stages());
    layers.assign(num_stages, shape.num_layers / layout.num_stages());
  }
  if (layers.size() != num_stages ||
      std::accumulate(layers.begin(), layers.end(), int64_t{0}) != shape.num_layers) {
    throw UsageError("pipeline stages: the layers of " + std::to_string(layers.size()) +
                     " stages are not the " + std::to_string(shape.num_layers) +
                     " layers of the model on " + std::to_string(num_stages));
  }
  std::vector<Chunk> chunks;
  for (int64_t stage = layout.pp_rank; stage < layout.num_stages(); stage += layout.pp_size) {
    const auto at = layers.begin() + stage;
    const Chunk chunk{.first_layer = std::accumulate(layers.begin(), at, int64_t{0}),
                      .num_layers = *at,
                      .has_embedding = stage == 0,
                      .has_head = stage + 1 == layout.num_stages()};
    if (chunk.num_layers < 1 && (chunk.num_layers < 0 || layout.pp_size == 1 ||
                                 (!chunk.has_embedding && !chunk.has_head))) {
      throw UsageError("pipeline stages: stage " + std::to_string(stage) +
                       " has no layer; only the first and the last one may have none");
    }
    chunks.push_back(chunk);
  }
  return chunks;
}

ParameterTable::ParameterTable(const ModelShape& shape, const ParallelLayout& layout)
    : chunks_(chunks_of(shape, layout)) {
  check_divides("number of heads", shape.num_heads, "tensor-parallel size", layout.tp_size);
  check_divides("number of heads", shape.num_heads, "query groups", shape.num_groups());
  check_divides("number of query groups", shape.num_groups(), "tensor-parallel size",
                layout.tp_size);
  check_divides("feed-forward size", shape.ffn_size, "tensor-parallel size", layout.tp_size);
  check_divides("padded vocabulary", shape.padded_vocab_size, "tensor-parallel size",
                layout.tp_size);
  const int64_t C = shape.hidden_size;
  const double std = shape.init_method_std;
  const float norm_weight = 1 - shape.norm_weight_offset();
  const auto word_table = [&](const char* name) {
    Parameter table = without_padding(matrix(name, {shape.padded_vocab_size, C}, 0, std, layout),
                                      shape.num_words());
    table.is_word_table = true;
    return table;
  };
  std::vector<Parameter> parameters;
  if (has_head()) {
    if (shape.unties_head) parameters.push_back(word_table(kHead));
    parameters.push_back(vector("decoder.final_layernorm.weight", {C}, -1, norm_weight, layout));
    if (!shape.uses_rms_norm)
      parameters.push_back(vector("decoder.final_layernorm.bias", {C}, -1, 0, layout));
  }
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    for (int64_t i = chunk->num_layers - 1; i >= 0; --i)
      append_layer(parameters, shape, layout, chunk->first_layer + i);
  }
  if (has_embedding() && shape.has_embedding_norm) {
    parameters.push_back(vector(kEmbeddingNorm + ".weight", {C}, -1, norm_weight, layout));
    parameters.push_back(vector(kEmbeddingNorm + ".bias", {C}, -1, 0, layout));
  }
  if (has_embedding() && shape.has_position_table) {
    parameters.push_back(
        matrix("embedding.position_embeddings.weight", {shape.max_positions, C}, -1, std, layout));
  }
  const bool has_tied_head = has_head() && !shape.unties_head;
  if (has_embedding() || has_tied_head) parameters.push_back(word_table(kWordEmbedding));
  const int64_t num_owners = layout.pp_size > 1 && !shape.unties_head ? layout.dp_size : 0;
  place(std::move(parameters), num_owners);
}

void ParameterTable::place(std::vector<Parameter> parameters, int64_t num_owners_of_tied) {
  const auto is_sharded = [](const Parameter& parameter) { return parameter.is_sharded; };
  const auto replicated = std::stable_partition(parameters.begin(), parameters.end(), is_sharded);
  std::stable_partition(replicated, parameters.end(),
                        [](const Parameter& parameter) { return !parameter.sums_over_heads; });
  for (Parameter& parameter : parameters) {
    const bool is_tied = num_owners_of_tied > 0 && parameter.name == kWordEmbedding;
    const int64_t unit = is_tied ? num_owners_of_tied * kOptimizerBlock : kOptimizerBlock;
    arena_elements_ = round_up(arena_elements_, unit);
    parameter.arena_offset = arena_elements_;
    arena_elements_ += round_up(parameter.num_elements, unit);
    if (is_tied) tied_ = {parameter.arena_offset, arena_elements_ - parameter.arena_offset};
    num_parameters_ += parameter.num_elements;
    if (parameter.decays) num_decaying_ += parameter.num_elements;
    if (parameter.is_sharded) replicated_begin_ = arena_elements_;
    if (!parameter.sums_over_heads) sums_over_heads_begin_ = arena_elements_;
  }
  parameters_ = std::move(parameters);
}

const Parameter* ParameterTable::try_find(std::string_view name) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

const Parameter& ParameterTable::find(std::string_view name) const {
  if (const Parameter* parameter = try_find(name)) return *parameter;
  throw std::out_of_range("no parameter \"" + std::string(name) + "\" on this rank");
}

std::vector<uint8_t> ParameterTable::decay_flags() const {
  std::vector<uint8_t> flags(static_cast<size_t>(arena_elements_ / kOptimizerBlock), 0);
  for (const Parameter& parameter : parameters_) {
    const int64_t first = parameter.arena_offset / kOptimizerBlock;
    const int64_t count = round_up(parameter.num_elements, kOptimizerBlock) / kOptimizerBlock;
    for (int64_t block = first; block < first + count; ++block) {
      flags[static_cast<size_t>(block)] = parameter.decays ? 1 : 0;
    }
  }
  return flags;
}

std::vector<int32_t> global_block_numbers(const ParameterTable& table, const ModelShape& shape,
                                          const ParallelLayout& layout) {
  const ParameterTable whole(shape, ParallelLayout{});
  std::vector<int32_t> numbers(static_cast<size_t>(table.arena_elements() / kOptimizerBlock), 0);
  for (const Parameter& parameter : table.all()) {
    const int64_t count = round_up(parameter.num_elements, kOptimizerBlock) / kOptimizerBlock;
    const int64_t slice = parameter.is_sharded ? layout.tp_rank : 0;
    const int64_t first = whole.find(parameter.name).arena_offset / kOptimizerBlock + slice * count;
    std::iota(numbers.begin() + parameter.arena_offset / kOptimizerBlock,
              numbers.begin() + parameter.arena_offset / kOptimizerBlock + count,
              static_cast<int32_t>(first));
  }
  return numbers;
}

Tensor ParameterTable::slice(Tensor arena, const Parameter& parameter) {
  const Tensor range = range_of(arena, parameter.arena_offset, parameter.num_elements);
  return parameter.shape.size() == 1 ? range : as_rows(range, parameter.shape[1]);
}

ModelParameters::ModelParameters(const ParameterTable& table, const Chunk& chunk, Tensor arena) {
  const auto parameter = [&](const std::string& name) {
    return ParameterTable::slice(arena, table.find(name));
  };
  const auto parameter_if_there = [&](const std::string& name) {
    return table.try_find(name) ? parameter(name) : Tensor();
  };
  word = parameter_if_there("embedding.word_embeddings.weight");
  head = parameter_if_there("output_layer.weight");
  if (!head) head = word;
  embedding_ln_weight = parameter_if_there("embedding.word_embeddings_layernorm.weight");
  embedding_ln_bias = parameter_if_there("embedding.word_embeddings_layernorm.bias");
  position = parameter_if_there("embedding.position_embeddings.weight");
  if (chunk.has_head) {
    final_ln_weight = parameter("decoder.final_layernorm.weight");
    final_ln_bias = parameter_if_there("decoder.final_layernorm.bias");
  }
  for (int64_t i = 0; i < chunk.num_layers; ++i) {
    const std::string prefix = "decoder.layers." + std::to_string(chunk.first_layer + i) + ".";
    const auto of_norm = [&](const char* name) {
      return parameter_if_there(prefix + "self_attention." + name);
    };
    layers.push_back({.ln1_weight = parameter(prefix + "input_layernorm.weight"),
                      .ln1_bias = parameter_if_there(prefix + "input_layernorm.bias"),
                      .qkv_weight = parameter(prefix + "self_attention.linear_qkv.weight"),
                      .qkv_bias = parameter_if_there(prefix + "self_attention.linear_qkv.bias"),
                      .qk_norm = {.q = of_norm("q_layernorm.weight"),
                                  .k = of_norm("k_layernorm.weight"),
                                  .q_bias = of_norm("q_layernorm.bias"),
                                  .k_bias = of_norm("k_layernorm.bias")},
                      .proj_weight = parameter(prefix + "self_attention.linear_proj.weight"),
                      .proj_bias = parameter_if_there(prefix + "self_attention.linear_proj.bias"),
                      .ln2_weight = parameter(prefix + "pre_mlp_layernorm.weight"),
                      .ln2_bias = parameter_if_there(prefix + "pre_mlp_layernorm.bias"),
                      .fc1_weight = parameter(prefix + "mlp.linear_fc1.weight"),
                      .fc1_bias = parameter_if_there(prefix + "mlp.linear_fc1.bias"),
                      .fc2_weight = parameter(prefix + "mlp.linear_fc2.weight"),
                      .fc2_bias = parameter_if_there(prefix + "mlp.linear_fc2.bias")});
  }
}

}  // namespace weft
