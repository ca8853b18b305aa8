// The part of a model that one rank's pipeline stage computes.
#pragma once

#include <cstdint>

#include "trainer/config/model_shape.h"
#include "trainer/parallel/parallel_layout.h"

namespace weft {

// A run of layers. The first chunk of a model begins with the embedding; the last one ends with the
// final LayerNorm and the head.
struct Chunk {
  int64_t first_layer = 0, num_layers = 0;
  bool has_embedding = true, has_head = true;
};

// Returns the chunk of a rank's pipeline stage. The first or the last stage may have no layer: then it
// has the embedding or the head alone. Throws std::invalid_argument where the layers of the model
// cannot be those of the stages.
Chunk chunk_of(const ModelShape& shape, const ParallelLayout& layout);

}  // namespace weft
