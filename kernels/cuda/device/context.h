// The context of an operation on a GPU: its stream, its scratch, and what all operations share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace weft::cuda {

class Gemm;

struct Context {
  cudaStream_t stream = nullptr;
  // Operations use it one after the other, because they follow each other on one stream.
  void* scratch_data = nullptr;
  int64_t scratch_bytes = 0;
  // In device memory, 0 between kernels: fused GEMMs (fused_gemm/) and attention's forward draw
  // their work from it.
  uint32_t* work_counter = nullptr;
  Gemm* gemm = nullptr;
  int num_multiprocessors = 0;

  // Returns at least `num_bytes` of scratch. Throws std::invalid_argument where there is less.
  void* scratch(const char* operation, int64_t num_bytes) const {
    if (scratch_data != nullptr && num_bytes <= scratch_bytes) return scratch_data;
    throw std::invalid_argument(std::string(operation) + ": needs " + std::to_string(num_bytes) +
                                " bytes of workspace, there are " + std::to_string(scratch_bytes) +
                                "; call set_workspace with workspace_bytes of the largest shapes");
  }
};

}  // namespace weft::cuda
