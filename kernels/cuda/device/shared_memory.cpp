#include "kernels/cuda/device/shared_memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "kernels/cuda/device/check.h"

namespace weft::cuda {
namespace {

int limit_of_a_block() {
  int device = 0, num_bytes = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&num_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  const char* kib = std::getenv("WEFT_SHARED_MEMORY_KIB");
  return kib == nullptr ? num_bytes : std::min(num_bytes, std::atoi(kib) * 1024);
}

// Holds the driver's answers about one kernel.
struct Kernel {
  int64_t static_bytes = 0;
  int allowed_bytes = 0;  // dynamic shared memory that is allowed so far
};

// `mutex` guards the entries.
struct Kernels {
  std::mutex mutex;
  std::unordered_map<const void*, Kernel> known;

  Kernel& find(const void* kernel) {
    const auto it = known.find(kernel);
    if (it != known.end()) return it->second;
    cudaFuncAttributes attributes{};
    CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
    return known.emplace(kernel, Kernel{static_cast<int64_t>(attributes.sharedSizeBytes)})
        .first->second;
  }
};

Kernels& kernels() {
  static Kernels kernels;
  return kernels;
}

bool fits(const Kernel& kernel, int64_t num_bytes) {
  static const int limit = limit_of_a_block();
  return kernel.static_bytes + num_bytes <= limit;
}

}  // namespace

bool fits_shared_memory(const void* kernel, int64_t num_bytes) {
  const std::lock_guard lock(kernels().mutex);
  return fits(kernels().find(kernel), num_bytes);
}

void allow_shared_memory(const void* kernel, int num_bytes, const char* name) {
  const std::lock_guard lock(kernels().mutex);
  Kernel& entry = kernels().find(kernel);
  if (num_bytes <= entry.allowed_bytes) return;
  const cudaError_t error =
      fits(entry, num_bytes)
          ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes)
          : cudaErrorInvalidValue;
  if (error == cudaErrorInvalidValue) {
    throw std::invalid_argument(std::string("CUDA: ") + name + " needs " +
                                std::to_string(num_bytes / 1024) +
                                " KiB of shared memory a block, and this GPU has less; A100, H100 "
                                "and their successors have enough");
  }
  check_cuda(error, name, __FILE__, __LINE__);
  entry.allowed_bytes = num_bytes;
}

}  // namespace weft::cuda
