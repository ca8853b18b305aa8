// Names a part of the program for Nsight Systems: `nsys profile --trace cuda,nvtx weft-train ...`
// shows it above the kernels that it enqueues. Without a tool a range costs some nanoseconds. A
// build without the NVTX3 header of the CUDA toolkit has no ranges.
#pragma once

#include <string>

#include "trainer/profile/operation.h"

namespace weft {

bool has_nvtx();

// The range lasts as long as the object.
class NvtxRange {
 public:
  explicit NvtxRange(const Operation& operation) : NvtxRange(to_string(operation)) {}
  explicit NvtxRange(const std::string& name);
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
  ~NvtxRange();
};

}  // namespace weft
