// Turns the error codes of CUDA and cuBLASLt into exceptions that say what failed, where, and what
// may help.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/tensor.h"

namespace weft::cuda {

inline const char* hint_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "; use a smaller micro-batch or a smaller model";
    case cudaErrorInsufficientDriver:
      return "; the driver is older than the toolkit: update it";
    case cudaErrorNoKernelImageForDevice:
      return "; configure with -DWEFT_CUDA_ARCHITECTURES that includes this GPU";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
      return "; run again under compute-sanitizer to find the access";
    default:
      return "";
  }
}

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("CUDA: ") + call + " failed at " + file + ":" +
                           std::to_string(line) + ": " + cudaGetErrorString(error) + " (" +
                           cudaGetErrorName(error) + ")" + hint_of(error));
}

inline void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("cuBLASLt: ") + call + " failed at " + file + ":" +
                           std::to_string(line) + ": " + cublasLtGetStatusString(status) +
                           "; CUBLASLT_LOG_LEVEL=5 makes the library say more");
}

// Throws std::invalid_argument for a tensor that does not begin at a multiple of 16 bytes: kernels
// and cuBLASLt algorithms read 16-byte vectors.
inline void require_aligned(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (reinterpret_cast<uintptr_t>(tensor.data()) % 16 != 0)
      throw std::invalid_argument(std::string(operation) +
                                  ": on CUDA every tensor must begin at a multiple of 16 bytes");
  }
}

}  // namespace weft::cuda

#define CUDA_CHECK(...) ::weft::cuda::check_cuda((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CUBLAS_CHECK(...) \
  ::weft::cuda::check_cublas((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
