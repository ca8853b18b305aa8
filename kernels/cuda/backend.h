// The CUDA backend: one device, a stream each for computing, two kinds of communication and copies, cuBLASLt for
// the matrix products, own kernels for the rest.
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
  CudaBackend(int device_idx, const std::string& algorithm_file);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  // --- device (backend.cpp) ---
  DeviceKind kind() const override { return DeviceKind::kCuda; }
  std::string description() const override;
  std::string device_id() const override;
  int64_t total_memory_bytes() const override;
  int64_t free_memory_bytes() const override;
  bool has_fp8_products() const override;
  void* allocate(int64_t num_bytes, Memory memory) override;
  void release(void* data, Memory memory) override;
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override;
  void zero(Tensor tensor) override;
  EventId create_event() override;
  EventId create_timed_event() override;
  void record(EventId event, Stream stream) override;
  void wait(Stream stream, EventId event) override;
  void synchronize(EventId event) override;
  void synchronize() override;
  bool has_happened(EventId event) override;
  float elapsed_ms(EventId start, EventId stop) override;
  void* native_stream(Stream stream) const override { return stream_of(stream); }
  int64_t workspace_bytes(const WorkspaceShape& shape) const override;
  void set_workspace(void* data, int64_t num_bytes) override;

  // --- choice of algorithms (tune.cpp) ---
  std::string tune(const WorkspaceShape& shape) override;
  std::string algorithms() const override { return gemm_->table().text_in_use(); }
  void use_algorithms(const std::string& text) override;

  // --- operations (operations.cpp; linear layers: linear.cpp) ---
  void cast(Tensor dst, Tensor src) override;
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first_word) override;
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first_word) override;
  void residual_norm_forward(const ResidualNorm& args) override;
  void residual_norm_backward(const ResidualNormBackward& args) override;
  void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) override;
  void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) override;
  void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                           Gelu gelu) override;
  void linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight, Tensor pre,
                                  Gelu gelu, bool accumulate) override;
  void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                              bool accumulate) override;
  void gelu_forward(Tensor out, Tensor pre, Gelu gelu) override;
  void quantize(const Quantize& args) override;
  void transpose_fp8(Tensor transposed, Tensor rows) override;
  void fp8_product(const Fp8Product& args) override;
  void update_fp8_scaling(const Fp8ScalingUpdate& args) override;
  void squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) override;
  void glu_forward(Tensor out, Tensor pre, Glu glu) override;
  void glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) override;
  void rotate(const Rotary& args) override;
  void expand_groups(Tensor expanded, Tensor grouped) override;
  void sum_groups(Tensor grouped, Tensor expanded) override;
  void attention_forward(const Attention& args) override;
  void attention_backward(const AttentionBackward& args) override;
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                     int64_t vocabulary_size, float gradient_scale, bool gradient) override;
  void cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                int64_t first_word, int64_t vocabulary_size) override;
  void cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics, Tensor targets,
                              Tensor loss_mask, int64_t first_word, int64_t vocabulary_size,
                              float gradient_scale, bool gradient) override;
  void sample_losses(Tensor out, Tensor losses, Tensor loss_mask) override;
  void sum(Tensor out, Tensor inp, float scale, bool accumulate) override;
  void sum_of_squares(Tensor out, Tensor inp) override;
  void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) override;
  void adamw(const AdamW& args) override;
  void split_masters(Tensor param, Tensor remainder, Tensor master) override;
  void join_masters(Tensor master, Tensor param, Tensor remainder) override;

 private:
  cudaStream_t stream_of(Stream stream) const {
    return stream == Stream::kCompute         ? compute_
           : stream == Stream::kCommunication ? communication_
           : stream == Stream::kReduction     ? reduction_
                                              : copy_;
  }
  cudaEvent_t event_of(EventId event) const;
  // Returns at least `num_bytes` of scratch. Throws std::invalid_argument where there is less.
  void* scratch(const char* operation, int64_t num_bytes) const;
  // The gradient of fc2's input and GELU's derivative by cuBLASLt, with its epilogue or a kernel after it.
  void gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre, Gelu gelu);
  // Runs all products of `shape` once, while timing is on.
  void time_products(const WorkspaceShape& shape);

  int device_idx_;
  cudaDeviceProp properties_ = {};
  cudaStream_t compute_ = nullptr, communication_ = nullptr, reduction_ = nullptr, copy_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::map<void*, Memory> allocations_;
  char* scratch_ = nullptr;
  int64_t scratch_bytes_ = 0;
  // In device memory: own products (products/) and attention's forward draw their work from it.
  uint32_t* work_counter_ = nullptr;
  std::unique_ptr<Gemm> gemm_;
};

}  // namespace weft::cuda
