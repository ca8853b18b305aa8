// Turns the error codes of CUDA and cuBLASLt into exceptions that say what failed, where, and what
// may help.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/backend.h"

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

// Returns the bytes of shared memory that a block of this GPU may have. WEFT_SHARED_MEMORY_KIB says
// less, which lets tests run what kernels choose on smaller GPUs.
inline int shared_memory_limit() {
  static const int limit = [] {
    int device = 0, num_bytes = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice", __FILE__, __LINE__);
    check_cuda(cudaDeviceGetAttribute(&num_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
               "cudaDeviceGetAttribute", __FILE__, __LINE__);
    const char* kib = std::getenv("WEFT_SHARED_MEMORY_KIB");
    return kib == nullptr ? num_bytes : std::min(num_bytes, std::atoi(kib) * 1024);
  }();
  return limit;
}

// Returns whether a block may have `num_bytes` of dynamic shared memory beside the kernel's static
// one.
inline bool fits_shared_memory(const void* kernel, int num_bytes) {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", __FILE__,
             __LINE__);
  return static_cast<int>(attributes.sharedSizeBytes) + num_bytes <= shared_memory_limit();
}

// Lets a kernel use `num_bytes` of dynamic shared memory. Throws std::invalid_argument if a block
// of this GPU has less.
inline void allow_shared_memory(const void* kernel, int num_bytes, const char* name) {
  const cudaError_t error =
      fits_shared_memory(kernel, num_bytes)
          ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, num_bytes)
          : cudaErrorInvalidValue;
  if (error == cudaErrorInvalidValue) {
    throw std::invalid_argument(std::string("CUDA: ") + name + " needs " +
                                std::to_string(num_bytes / 1024) +
                                " KiB of shared memory a block, and this GPU has less; A100, H100 "
                                "and their successors have enough");
  }
  check_cuda(error, name, __FILE__, __LINE__);
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

}  // namespace weft::cuda

#define CUDA_CHECK(...) ::weft::cuda::check_cuda((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CUBLAS_CHECK(...) \
  ::weft::cuda::check_cublas((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
