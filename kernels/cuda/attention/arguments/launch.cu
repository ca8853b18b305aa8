#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/shared_memory.h"

namespace weft::cuda::attention {

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel, __FILE__, __LINE__);
}

bool fits_shared_memory(const void* kernel, int num_bytes) {
  return cuda::fits_shared_memory(kernel, num_bytes);
}

int multiprocessors() { return num_multiprocessors(); }

void allow_shared_memory(const void* kernel, int num_bytes, const char* name) {
  cuda::allow_shared_memory(kernel, num_bytes, name);
}

}  // namespace weft::cuda::attention
