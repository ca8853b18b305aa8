// Attention with linear biases: a head's scores sink by its slope with each token between query and
// key. [Press et al. 2022, arXiv:2108.12409]
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// Returns the slopes of all heads of a model, positive: 2^(-8/n), 2^(-16/n), ..., 2^-8 of n heads
// where n is a power of two. Otherwise those of the power of two below n come first, and then every
// second one of the power above, from its first on, as in the authors' code and in BLOOM.
// [github.com/ofirpress/attention_with_linear_biases; transformers, modeling_bloom.py
// build_alibi_tensor]
std::vector<float> alibi_slopes(int64_t num_heads);

}  // namespace weft
