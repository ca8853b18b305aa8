// The activations that backward computes again instead of keeping them from forward.
// [Chen et al. 2016, arXiv:1604.06174; Megatron-LM megatron/core/transformer/transformer_block.py]
//
//   uniform 2   groups of two layers; of each group only the input is kept     (0 1) (2 3) (4)
//   block 2     the first two layers, each by itself; the others are kept       (0)  (1)  2  3  4
//
// Layers count from the beginning of a pipeline stage, so every stage recomputes as many. Or of
// every layer only the parts that are cheap for their memory are recomputed: outputs of norms and
// of the activation, then that of fc1, which is a product.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/config/config.h"

namespace weft {

struct RecomputeOptions {
  enum class Method { kNone, kUniform, kBlock };
  Method method = Method::kNone;
  int64_t num_layers = 1;  // of a group (uniform), or those that are recomputed (block)
  // Parts of every layer, where no layer is recomputed as a whole.
  bool norms = false;       // the outputs of both norms
  bool activation = false;  // the output of GELU or of a gated linear unit
  bool mlp = false;         // the output of fc1 and its activation

  bool recomputes_activation() const { return activation || mlp; }
  bool recomputes_layer(int64_t i) const {
    return method == Method::kUniform || (method == Method::kBlock && i < num_layers);
  }
  // Backward recomputes the layers of a group together, from the input of the first one. A kept
  // layer is a group of its own.
  int64_t group_begin(int64_t i) const {
    return method == Method::kUniform ? i / num_layers * num_layers : i;
  }
  // Returns the number of layers of a chunk that are recomputed.
  int64_t num_recomputed(int64_t chunk_layers) const {
    if (method == Method::kNone) return 0;
    return method == Method::kUniform ? chunk_layers : std::min(num_layers, chunk_layers);
  }
  // Returns how many layers of a chunk are computed again before their backward begins: those of
  // the largest group, or one of which only parts are recomputed.
  int64_t layers_at_once(int64_t chunk_layers) const {
    if (method == Method::kNone && !norms && !recomputes_activation()) return 0;
    return std::min(method == Method::kUniform ? num_layers : 1, chunk_layers);
  }
};

// Returns what the flags of recomputation ask for.
RecomputeOptions recompute_options(const Config& config);

}  // namespace weft
