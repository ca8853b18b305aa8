// PyTorch's random permutation, which Megatron's cyclic sampler draws for each epoch. It is a unit
// of its own so that the linker can count its calls in a test (--wrap).
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// torch.randperm(n) on the CPU after manual_seed(seed), for n below 214,748,364; beyond it PyTorch
// has another rule, and UsageError is thrown.
std::vector<int32_t> torch_randperm(int64_t n, uint64_t seed);

}  // namespace weft
