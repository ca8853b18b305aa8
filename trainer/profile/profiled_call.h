// Runs a call of a backend or communicator, recorded and named while a step is profiled.
#pragma once

#include "trainer/profile/nvtx_range.h"
#include "trainer/profile/operation_recorder.h"

namespace weft {

// `describe` returns the Operation of `call`; it is called only while a step is recorded.
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

}  // namespace weft
