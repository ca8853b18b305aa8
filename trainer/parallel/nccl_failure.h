// Tells what a failed call of NCCL means for the run. This needs no NCCL, so that every build tests
// it.
#pragma once

#include <string>

namespace weft {

// The results of NCCL's calls, as nccl.h numbers them [NCCL user guide, "Types"].
enum class NcclResult : int {
  kUnhandledCudaError = 1,
  kSystemError = 2,  // a socket, shared memory
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,  // the network, or a process that is gone
};

// Throws DeviceOutOfMemory or DeviceLost for an error of CUDA; LimitExceeded where this host lacks
// shared memory; RunFailed with kPeerLost for other errors of the system and of another rank;
// UsageError for a use that NCCL refuses, because that follows from its environment or
// from how ranks share GPUs; std::logic_error for what is a mistake of ours or of NCCL.
[[noreturn]] void throw_nccl_failure(NcclResult result, const std::string& message);

}  // namespace weft
