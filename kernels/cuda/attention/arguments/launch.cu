#include <cstdlib>
#include <stdexcept>
#include <string>

#include "kernels/cuda/attention/arguments/launch.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/device/device.cuh"
#include "kernels/cuda/device/shared_memory.h"
#include "kernels/cuda/hopper/hopper_code.h"
#include "kernels/flash_kernels.h"

namespace weft::cuda::attention {

void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel, __FILE__, __LINE__);
}

bool fits_shared_memory(const void* kernel, int num_bytes) {
  return cuda::fits_shared_memory(kernel, num_bytes);
}

namespace {

bool environment_wants_mma_sync() {
  const char* value = std::getenv("WEFT_ATTENTION");
  const std::string choice = value == nullptr ? "" : value;
  if (!choice.empty() && choice != "mma_sync")
    throw std::invalid_argument("WEFT_ATTENTION is " + choice +
                                "; it can be mma_sync, or be left out");
  return !choice.empty();
}

bool wants_mma_sync() {
  static const bool wants = environment_wants_mma_sync();
  return wants;
}

}  // namespace

bool uses_hopper_kernels() { return !wants_mma_sync() && has_hopper_code(); }

int multiprocessors() { return num_multiprocessors(); }

void allow_shared_memory(const void* kernel, int num_bytes, const char* name) {
  cuda::allow_shared_memory(kernel, num_bytes, name);
}

}  // namespace weft::cuda::attention

namespace weft {

std::string flash_kernels() {
  namespace attention = cuda::attention;
  if (attention::uses_hopper_kernels()) return "flash attention for Hopper (wgmma)";
  const std::string mma_sync = "flash attention for GPUs from sm_80 on (mma.sync)";
  if (attention::wants_mma_sync()) return mma_sync + ", as WEFT_ATTENTION says";
  return cuda::is_hopper() ? mma_sync + ": this build has no code for sm_90a" : mma_sync;
}

}  // namespace weft
