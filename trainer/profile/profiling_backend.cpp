#include "trainer/profile/profiling_backend.h"

#include "trainer/profile/profiled_call.h"

namespace weft {

void ProfilingBackend::copy(void* dst, const void* src, int64_t num_bytes, Stream stream) {
  const auto call = [&] { inner().copy(dst, src, num_bytes, stream); };
  if (stream != Stream::kCompute) return call();
  profiled_call(
      recorder_, stream, [&] { return copy_operation(num_bytes); }, call);
}

void ProfilingBackend::record(EventId event, Stream stream) {
  recorder_.note_record(event, stream);
  inner().record(event, stream);
}

void ProfilingBackend::wait(Stream stream, EventId event) {
  if (stream == Stream::kCompute && recorder_.takes_operations()) {
    recorder_.wait_on_compute(event);
  } else {
    inner().wait(stream, event);
  }
}

}  // namespace weft
