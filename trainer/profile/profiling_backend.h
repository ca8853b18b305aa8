// A backend that records each operation of another one while a step is profiled
// (operation_recorder.h) and names it for Nsight Systems (nvtx_range.h). It changes no argument and
// no order, so a profiled step computes the same bits.
#pragma once

#include <memory>
#include <utility>

#include "kernels/forwarding_backend.h"
#include "trainer/profile/operation_recorder.h"
#include "trainer/profile/profiled_call.h"

namespace weft {

class ProfilingBackend final : public OperationVisitor<ProfilingBackend, ForwardingBackend> {
 public:
  explicit ProfilingBackend(std::unique_ptr<Backend> inner)
      : OperationVisitor(std::move(inner)), recorder_(ForwardingBackend::inner()) {}

  OperationRecorder& recorder() { return recorder_; }

  // Copies on the compute stream are operations of a step; others run beside it.
  void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) override;
  void record(EventId event, Stream stream) override;
  void wait(Stream stream, EventId event) override;
  template <typename Op>
  void visit(const Op& op) {
    profiled_call(
        recorder_, Stream::kCompute, [&] { return operation_of(op); }, [&] { inner().run(op); });
  }

 private:
  OperationRecorder recorder_;
};

}  // namespace weft
