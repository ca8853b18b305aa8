// The parts of a model that one rank's pipeline stage computes.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/model_shape.h"
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
// the head alone. Throws std::invalid_argument where the layers of the model cannot be those of the
// stages.
std::vector<Chunk> chunks_of(const ModelShape& shape, const ParallelLayout& layout);

}  // namespace weft
