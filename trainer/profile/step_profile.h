// Makes one line for each kind of operation from the spans of recorded steps.
//
// All of a step's time on the compute stream is in exactly one place:
//
//   step = operations on the compute stream + exposed collectives of other streams
//          + other waits + idle
//
// A collective that runs beside the compute stream costs what is exposed of it: the time in which
// it runs while the compute stream waits for its stream. Collectives on the compute stream are
// exposed as a whole. Idle is the time in which the compute stream has neither an operation nor a
// wait: the host was late, or the gap between two kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/profile/operation_recorder.h"

namespace weft {

// Numbers are those of an average step.
struct ProfileLine {
  Operation operation = {};  // flops and bytes are those of an average call
  double calls = 0;
  double ms = 0;  // from the begin of each call to its end
  double exposed_ms =
      0;  // the part that the step waits for; operations of the device are exposed whole
  double idle_before_ms = 0;  // idle time of the compute stream that ended with these calls
};

struct StepProfile {
  int64_t num_steps = 0;
  double step_ms = 0;
  double other_wait_ms = 0;  // waits for streams on which no recorded collective ran
  double idle_ms = 0;
  double between_steps_ms = 0;          // after each step but the last; not part of step_ms
  std::vector<ProfileLine> lines = {};  // by falling exposed_ms
};

// `operations` are those that the spans number.
StepProfile profile_of(const std::vector<Operation>& operations,
                       const std::vector<RecordedStep>& steps);

}  // namespace weft
