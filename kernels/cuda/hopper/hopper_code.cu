#include <cuda_runtime.h>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda/hopper/hopper_code.h"

namespace weft::cuda {

namespace {

// The compiler reads this file once for each architecture, so the value is that of the code that
// the device runs.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__constant__ int is_sm90a_code = 1;
#else
__constant__ int is_sm90a_code = 0;
#endif

bool find_hopper_code() {
  if (!is_hopper()) return false;
  int is_sm90a = 0;
  CUDA_CHECK(cudaMemcpyFromSymbol(&is_sm90a, is_sm90a_code, sizeof is_sm90a));
  return is_sm90a == 1;
}

}  // namespace

bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
}

bool has_hopper_code() {
  static const bool has = find_hopper_code();
  return has;
}

}  // namespace weft::cuda
