// Turns the error codes of CUDA and cuBLASLt into exceptions that say what failed, where, and what
// may help.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/device_error.h"
#include "kernels/numbers/tensor.h"

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

// Returns whether the GPU itself has failed, or has stopped the work, so that another one may do
// it. Other errors would be met there again.
inline bool is_device_lost(cudaError_t error) {
  switch (error) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorSystemNotReady:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorMapBufferObjectFailed:
    case cudaErrorContextIsDestroyed:
    case cudaErrorMpsClientTerminated:
#if CUDART_VERSION >= 13000  // the headers of CUDA 12 may lack it
    case cudaErrorContained:
#endif
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

inline bool is_device_lost(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED || status == CUBLAS_STATUS_INTERNAL_ERROR ||
         status == CUBLAS_STATUS_MAPPING_ERROR;
}

// Throws DeviceOutOfMemory; DeviceLost if is_device_lost(); std::invalid_argument where this driver
// or this build cannot serve the GPU; std::logic_error for any other error, a mistake of ours.
inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  const std::string message = std::string("CUDA: ") + call + " failed at " + file + ":" +
                              std::to_string(line) + ": " + cudaGetErrorString(error) + " (" +
                              cudaGetErrorName(error) + ")" + hint_of(error);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, which is not sticky
    throw DeviceOutOfMemory(message);
  }
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInsufficientDriver)
    throw std::invalid_argument(message);
  if (is_device_lost(error)) throw DeviceLost(message);
  throw std::logic_error(message);
}

inline void check_cublas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string message = std::string("cuBLASLt: ") + call + " failed at " + file + ":" +
                              std::to_string(line) + ": " + cublasLtGetStatusString(status) +
                              "; CUBLASLT_LOG_LEVEL=5 makes the library say more";
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw DeviceOutOfMemory(message);
  if (is_device_lost(status)) throw DeviceLost(message);
  throw std::logic_error(message);
}

// Device memory for the time of a measurement.
class TemporaryMemory {
 public:
  explicit TemporaryMemory(int64_t num_bytes) {
    if (num_bytes > 0) {
      check_cuda(cudaMalloc(&data_, static_cast<size_t>(num_bytes)), "cudaMalloc", __FILE__,
                 __LINE__);
    }
  }
  ~TemporaryMemory() { cudaFree(data_); }
  TemporaryMemory(const TemporaryMemory&) = delete;
  TemporaryMemory& operator=(const TemporaryMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Throws std::invalid_argument for a tensor that does not begin at a multiple of 16 bytes: kernels
// and cuBLASLt algorithms read 16-byte vectors.
inline void require_aligned(const char* operation, std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    if (reinterpret_cast<uintptr_t>(tensor.data()) % 16 != 0)
      throw std::invalid_argument(std::string(operation) +
                                  ": on CUDA every tensor must begin at a multiple of 16 bytes");
  }
}

// Kernels move pieces of 16 bytes, which are up to 8 numbers of a model's type and 16 of fp8.
inline void require_multiple(const char* operation, const char* what, int64_t size,
                             int64_t multiple) {
  if (size % multiple != 0)
    throw std::invalid_argument(std::string(operation) + ": " + what + " is " +
                                std::to_string(size) + "; on CUDA it must be a multiple of " +
                                std::to_string(multiple));
}

}  // namespace weft::cuda

#define CUDA_CHECK(...) ::weft::cuda::check_cuda((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CUBLAS_CHECK(...) \
  ::weft::cuda::check_cublas((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
