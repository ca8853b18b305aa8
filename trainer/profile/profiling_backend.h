// A backend and communicators that record each operation of other ones while a step is profiled
// (operation_recorder.h) and name it for Nsight Systems (nvtx_range.h). They change no argument and
// no order, so a profiled step computes the same bits.
#pragma once

#include <memory>
#include <utility>

#include "kernels/forwarding_backend.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/profile/nvtx_range.h"
#include "trainer/profile/operation_recorder.h"

namespace weft {

// Runs `call`, recorded and named while a step is profiled. `describe` returns the Operation of
// `call`; it is called only while a step is recorded.
template <typename Describe, typename Call>
void profiled_call(OperationRecorder& recorder, Stream stream, const Describe& describe,
                   const Call& call) {
  if (!recorder.takes_operations()) return call();
  const Operation operation = describe();
  const NvtxRange range(operation);
  OperationRecorder::Scope scope(recorder, operation, stream);
  call();
  scope.end();
}

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

// Returns `groups` with communicators that call theirs; groups that share one still do. Groups of
// one rank stay as they are, because their operations do nothing. `recorder` outlives the groups.
ProcessGroups with_profile(ProcessGroups groups, OperationRecorder& recorder);

}  // namespace weft
