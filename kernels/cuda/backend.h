// The CUDA backend: one device, a stream each for computing, two kinds of communication and copies,
// cuBLASLt for the matrix products, own kernels for the rest.
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
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/device/work_counter.h"
#include "kernels/cuda/gemm/gemm.h"

namespace weft::cuda {

class CudaBackend final : public OperationVisitor<CudaBackend> {
 public:
  explicit CudaBackend(int device_idx);
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
  EventId create_event() override;
  EventId create_timed_event() override;
  void record(EventId event, Stream stream) override;
  void wait(Stream stream, EventId event) override;
  void synchronize(EventId event) override;
  void synchronize() override;
  bool has_happened(EventId event) override;
  float elapsed_ms(EventId start, EventId stop) override;
  std::function<void()> repeatable(const std::function<void()>& enqueue) override;
  void* native_stream(Stream stream) const override { return stream_of(stream); }
  int64_t workspace_bytes(std::span<const AnyOperation> operations) const override;
  void set_workspace(void* data, int64_t num_bytes) override;

  // --- choice of algorithms (tune.cpp) ---
  TuneResult tune(std::span<const AnyOperation> operations, const AlgorithmChoices& known) override;
  std::string algorithms() const override { return text_of(gemm_->table().in_use()); }
  void use_algorithms(const std::string& text) override;

  // --- operations ---
  template <typename Op>
  void visit(const Op& op) {
    check(op);
    cuda::run(context_, op);
  }

 private:
  cudaStream_t stream_of(Stream stream) const {
    return stream == Stream::kCompute         ? context_.stream
           : stream == Stream::kCommunication ? communication_
           : stream == Stream::kReduction     ? reduction_
                                              : copy_;
  }
  cudaEvent_t event_of(EventId event) const;

  int device_idx_;
  cudaDeviceProp properties_ = {};
  cudaStream_t communication_ = nullptr, reduction_ = nullptr, copy_ = nullptr;
  std::vector<cudaEvent_t> events_;
  std::map<void*, Memory> allocations_;
  // synchronize() checks it, and in a build without NDEBUG a wait for an event does, too.
  std::unique_ptr<WorkCounter> work_counter_;
  std::unique_ptr<Gemm> gemm_;
  Context context_;  // Operations run on its compute stream.
};

}  // namespace weft::cuda
