// The CUDA backend: one device, a compute stream and a copy stream, cuBLASLt for the matrix
// products, own kernels for the rest.
//
// The constructor makes its device current on the calling thread, and only that thread may use the
// backend. The workspace begins with cuBLASLt's part; all operations use the rest as scratch, one
// after the other, because they follow each other on one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/gemm.h"

namespace weft::cuda {

class CudaBackend final : public Backend {
 public:
  CudaBackend(int device_idx, const std::string& algorithm_cache);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  // --- device (backend.cpp) ---
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string description() const override;
  int64_t total_memory_bytes() const override;
  int64_t free_memory_bytes() const override;
  void* allocate(int64_t num_bytes, Memory memory) override;
  void release(void* data, Memory memory) override;
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override;
  void zero(Tensor tensor) override;
  EventId create_event() override;
  void record(EventId event, Stream stream) override;
  void wait(Stream stream, EventId event) override;
  void synchronize(EventId event) override;
  void synchronize() override;
  float elapsed_ms(EventId start, EventId stop) override;
  int64_t workspace_bytes(const WorkspaceShape& shape) const override;
  void set_workspace(void* data, int64_t num_bytes) override;

  // --- operations (operations.cpp; linear layers: linear.cpp) ---
  void cast(Tensor dst, Tensor src) override;
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position,
                         int64_t first_word, const Dropout& dropout) override;
  void embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens,
                          int64_t first_word, const Dropout& dropout) override;
  void layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp, Tensor weight,
                         Tensor bias, float epsilon) override;
  void residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean, Tensor rstd,
                                  Tensor residual, Tensor branch, Tensor weight, Tensor bias,
                                  float epsilon, const Dropout& dropout) override;
  void layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                          Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean, Tensor rstd,
                          Tensor weight, const Dropout& dropout, bool accumulate) override;
  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override;
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override;
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override;
  void linear_gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu) override;
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override;
  void attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                         const Dropout& dropout) override;
  void attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv, float scale,
                          const Dropout& dropout) override;
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                     int64_t vocabulary_size, float gradient_scale, bool gradient) override;
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override;
  void sum_of_squares(Tensor out, Tensor inp) override;
  void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) override;
  void adamw(const AdamW& args) override;

 private:
  cudaStream_t stream_of(Stream stream) const {
    return stream == Stream::kCompute ? compute_ : copy_;
  }
  cudaEvent_t event_of(EventId event) const;
  // Returns at least `num_bytes` of scratch. Throws std::invalid_argument where there is less.
  void* scratch(const char* operation, int64_t num_bytes) const;

  int device_idx_;
  cudaDeviceProp properties_ = {};
  cudaStream_t compute_ = nullptr, copy_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::map<void*, Memory> allocations_;
  char* scratch_ = nullptr;
  int64_t scratch_bytes_ = 0;
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace weft::cuda
