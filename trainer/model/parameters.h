// The parameters of a rank, their names and their places in the flat arenas.
//
// Values (x), fp32 masters or what values lack of them, Adam's two moments and fp32 gradients are
// five arenas of one layout: `arena_offset` is valid in each. The parameters that tensor
// parallelism shards lie first, in the order in which backward completes their gradients (a head of
// its own, layers from last to first, word embedding); those that every tensor-parallel rank holds
// whole (norms, the biases of proj and fc2, positions) lie behind them in one region. So ranges of
// the arena can be reduced as buckets while backward still runs, one reduction serves the
// replicated ones, and an optimizer shard is any range of whole blocks of kOptimizerBlock elements.
// Padding between parameters is zero and stays zero.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/model_shape.h"
#include "trainer/parallel/arena.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

// A run of layers. The first chunk of a model begins with the embedding; the last one ends with the
// final LayerNorm and the head.
struct Chunk {
  int64_t first_layer = 0, num_layers = 0;
  bool has_embedding = true, has_head = true;
};

// Returns the chunks of a rank's pipeline stage, in the order of the model: one, or interleaved
// several. The first or the last chunk of the model may have no layer: then it has the embedding or
// the head alone. Throws UsageError where the layers of the model cannot be those of the
// stages.
std::vector<Chunk> chunks_of(const ModelShape& shape, const ParallelLayout& layout);

// One parameter of this rank, which is a slice of a global tensor. Names are Megatron-Core's
// ("embedding.word_embeddings.weight", "decoder.layers.0.self_attention.linear_qkv.weight", ...),
// with global layer numbers. Weights are stored [out, in]; the rows of linear_qkv are ordered per
// head: [query, key, value] times D; with groups of queries, per group: [queries, key, value] times
// D. Of a gated linear unit linear_fc1 is (2,F,C), gate and up.
//
// The word embedding has more rows in memory than the vocabulary has words, so that products are
// fast and ranks get equal shares. Those rows are no part of the model: they are zero, get no
// gradient, and no checkpoint holds them.
struct Parameter {
  std::string name;
  std::vector<int64_t> global_shape;  // of the model, without padding
  int split_dim = -1;                 // the dimension that is sharded over tp; -1 means replicated
  int64_t begin = 0, end = 0;         // this rank's range of split_dim, without padding
  std::vector<int64_t> shape;  // the slice in memory, with padding: (rows, columns) or (elements)
  int64_t arena_offset = 0;    // first element in the flat arenas, a multiple of kOptimizerBlock
  int64_t num_elements = 0;    // in memory
  int64_t num_own = 0;         // of the model: the first num_own elements, the rest is padding
  bool is_sharded = false;     // tensor parallelism of any size shards it
  bool decays = false;         // weight decay applies: to matrices and embeddings, never to vectors
  bool is_word_table = false;  // the word embedding, or a head of its own
  bool is_layer_matrix = false;  // the weight of a product of a layer: what Muon updates
  // The rows of one group of heads in linear_qkv: of its queries, its key and its value.
  std::vector<int64_t> fused_rows = {};
  // Each tensor-parallel rank holds it whole, and makes its gradient from its own heads only.
  bool sums_over_heads = false;
  double init_std = 0;  // 0 means the constant init_value
  float init_value = 0;
};

class ParameterTable {
 public:
  // Lists the parameters of one rank. The chunk with the embedding has both tables and the
  // LayerNorm of the words, the one with the head the final norm, and its copy of the word
  // embedding or weights of its own. Throws UsageError where sizes do not divide.
  ParameterTable(const ModelShape& shape, const ParallelLayout& layout);

  const std::vector<Chunk>& chunks() const { return chunks_; }  // in the order of the model
  bool has_embedding() const { return chunks_.front().has_embedding; }
  bool has_head() const { return chunks_.back().has_head; }
  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter& find(std::string_view name) const;         // throws std::out_of_range
  const Parameter* try_find(std::string_view name) const;     // null where the rank has none
  int64_t num_parameters() const { return num_parameters_; }  // on this rank, rows of padding too
  int64_t num_decaying() const { return num_decaying_; }      // those with weight decay
  int64_t arena_elements() const { return arena_elements_; }  // with padding
  // The first element of the region of replicated parameters, which ends with the arena, and in it
  // of those whose gradients are sums over heads, which come last.
  int64_t replicated_begin() const { return replicated_begin_; }
  int64_t sums_over_heads_begin() const { return sums_over_heads_begin_; }
  // The word embedding where the first and the last stage of a pipeline both hold it; else empty.
  // It begins and ends with whole blocks of kOptimizerBlock for every data-parallel rank, so that
  // each has the same part of it on both stages.
  ArenaRange tied() const { return tied_; }
  std::vector<uint8_t> decay_flags() const;  // one per kOptimizerBlock

  // Returns the slice of `parameter` in an arena, in the slice's shape.
  static Tensor slice(Tensor arena, const Parameter& parameter);

 private:
  // `num_owners_of_tied` data-parallel ranks have equal parts of a tied word embedding; 0: none is.
  void place(std::vector<Parameter> parameters, int64_t num_owners_of_tied);
  std::vector<Chunk> chunks_;
  std::vector<Parameter> parameters_;
  int64_t num_parameters_ = 0, num_decaying_ = 0, arena_elements_ = 0, replicated_begin_ = 0;
  int64_t sums_over_heads_begin_ = 0;
  ArenaRange tied_;
};

// All weights of a chunk, or all their gradients, as views into an arena. Shapes are those of the
// tensor-parallel rank. Biases that the model lacks are empty: those of norms in an RMSNorm, too.
struct LayerParameters {
  Tensor ln1_weight, ln1_bias;    // (C)
  Tensor qkv_weight, qkv_bias;    // ((H+2G)*D/tp, C), ((H+2G)*D/tp)
  QkNormWeights qk_norm;          // (D); empty where queries and keys have no norm
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

// Returns the number of each block of kOptimizerBlock elements of a rank's arena: that of the block
// where one rank holds the whole model, and for a slice of a tensor one that follows from it. So
// ranks that hold the same elements have the same numbers.
std::vector<int32_t> global_block_numbers(const ParameterTable& table, const ModelShape& shape,
                                          const ParallelLayout& layout);

// Fills in the initial values of `parameter`, num_elements of them. Element e of the *global*
// tensor is a function of (seed, name, e) alone, in arithmetic that every IEEE machine does alike,
// so every topology and device starts from the same weights. Padding gets zeros. It uses OpenMP.
void initial_values(const Parameter& parameter, uint64_t seed, float* values);

}  // namespace weft
