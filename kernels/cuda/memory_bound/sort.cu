// CUB's radix sort has a file of its own because it takes a minute to compile.
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {

void sort_pairs(cudaStream_t stream, uint32_t* sorted_keys, uint32_t* sorted_values,
                const uint32_t* keys, const uint32_t* values, int64_t n, int num_bits,
                void* scratch, int64_t scratch_bytes) {
  auto num_bytes = static_cast<size_t>(scratch_bytes);
  CUDA_CHECK(cub::DeviceRadixSort::SortPairs(scratch, num_bytes, keys, sorted_keys, values,
                                             sorted_values, static_cast<int>(n), 0, num_bits,
                                             stream));
}

}  // namespace weft::cuda
