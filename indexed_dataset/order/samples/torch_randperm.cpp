#include "indexed_dataset/order/samples/torch_randperm.h"

#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

// From here on PyTorch draws 64 bits for a number [aten/src/ATen/native/TensorFactories.cpp].
constexpr int64_t kPermutationLimit = int64_t{0xffffffff} / 20;

}  // namespace

std::vector<int32_t> torch_randperm(int64_t n, uint64_t seed) {
  if (n >= kPermutationLimit) {
    throw UsageError("--dataloader-type cyclic: " + std::to_string(n) +
                     " samples of a rank; here less than " + std::to_string(kPermutationLimit) +
                     " can be shuffled");
  }
  // PyTorch's generator takes the lower half of a seed.
  std::mt19937 engine(static_cast<uint32_t>(seed));
  std::vector<int32_t> permutation(static_cast<size_t>(n));
  std::iota(permutation.begin(), permutation.end(), 0);
  for (int64_t i = 0; i + 1 < n; ++i) {
    const auto step = static_cast<int64_t>(engine() % static_cast<uint64_t>(n - i));
    std::swap(permutation[static_cast<size_t>(i)], permutation[static_cast<size_t>(i + step)]);
  }
  return permutation;
}

}  // namespace weft
