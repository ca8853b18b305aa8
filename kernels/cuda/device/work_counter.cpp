#include "kernels/cuda/device/work_counter.h"

#include <stdexcept>
#include <string>

#include "kernels/cuda/device/check.h"

namespace weft::cuda {

WorkCounter::WorkCounter() {
  void* data = nullptr;
  CUDA_CHECK(cudaMalloc(&data, sizeof *data_));
  data_ = static_cast<uint32_t*>(data);
  CUDA_CHECK(cudaMemset(data_, 0, sizeof *data_));
  CUDA_CHECK(cudaDeviceSynchronize());  // Streams that do not block are not ordered after it.
}

WorkCounter::~WorkCounter() { cudaFree(data_); }

void WorkCounter::check(cudaStream_t stream) const {
  uint32_t value = 0;
  CUDA_CHECK(cudaMemcpyAsync(&value, data_, sizeof value, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  if (value != 0)
    throw std::logic_error("CUDA: a kernel left " + std::to_string(value) +
                           " in the counter of work instead of 0; results since then are wrong");
}

}  // namespace weft::cuda
