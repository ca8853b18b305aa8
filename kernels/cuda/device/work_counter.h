// A counter in device memory from which the blocks of a kernel draw their work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace weft::cuda {

// Kernels on one stream share it: each finds it at 0 and leaves it at 0, because the number of
// draws follows from its grid.
class WorkCounter {
 public:
  WorkCounter();
  ~WorkCounter();
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  uint32_t* data() const { return data_; }
  // Throws std::logic_error where the kernels that `stream` has run left another number than 0: the
  // next one would leave out work. It waits for the stream.
  void check(cudaStream_t stream) const;

 private:
  uint32_t* data_ = nullptr;
};

}  // namespace weft::cuda
