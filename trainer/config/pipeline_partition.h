// Shares out the layers over pipeline stages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/config/model_shape.h"

namespace weft {

// Returns --pp-partition-method, or the numbers of layers that follow from Megatron's ways to give
// the ends of a pipeline fewer of them [megatron/core/transformer/transformer_config.py,
// transformer_block.py get_num_layers_to_build]. Throws UsageError where they do not
// share out the layers.
std::string partition_method(const Config& config);

// Returns the number of layers of each of the `num_ranks` * `num_virtual_stages` stages of the
// model. The first stage has the embedding besides, the last one the head; each of the two may have
// no layer, if there is another stage.
//
//   uniform                     equally many layers; the default, as in Megatron
//   5,6,6,5                     these numbers
//   type:transformer            numbers of layers that differ by one at most
//   type:transformer|embedding  the same, where embedding and head count as a layer each
//   parameters                  by parameters, embedding and head with theirs
//   cost                        by the FLOPs of forward; the embedding has none
//
// The last four give each layer to the stage that has the least so far, the later one of equals: it
// keeps the activations of fewer micro-batches. As all layers weigh the same, no other numbers have
// a smaller maximum. The names are those of --pp-partition-method in Megatron-DeepSpeed. Throws
// UsageError, which says what to change, for methods and numbers that give no partition.
std::vector<int64_t> layers_of_stages(std::string_view method, int64_t num_ranks,
                                      const ModelShape& shape, int64_t num_virtual_stages = 1);

// Returns "stage=0 layers=5 (embedding, layers 0-4)" and so on, a line for each stage; with its
// rank where the ranks hold several.
std::string text_of_stages(const std::vector<int64_t>& stage_layers, int64_t num_ranks);

}  // namespace weft
