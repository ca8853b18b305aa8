#include "trainer/parallel/nccl_failure.h"

#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/backend.h"

namespace weft {

void throw_nccl_failure(NcclResult result, const std::string& message) {
  const std::string text = message + "; NCCL_DEBUG=INFO says more";
  switch (result) {
    case NcclResult::kUnhandledCudaError:
      if (message.find("out of memory") != std::string::npos) {
        throw DeviceOutOfMemory(text + "; NCCL takes some hundred MiB for each group of ranks");
      }
      throw DeviceLost(text);
    case NcclResult::kSystemError:
      if (message.find("creating shared memory segment") != std::string::npos) {
        throw LimitExceeded(text +
                            "; look at df /dev/shm: containers get 64 MiB unless told otherwise "
                            "(docker run --shm-size=8g)");
      }
      [[fallthrough]];
    case NcclResult::kRemoteError:
      throw RunFailed(static_cast<int>(ExitCode::kPeerLost),
                      "another rank or the network to it was lost: " + text);
    case NcclResult::kInvalidUsage:
      throw UsageError(
          text +
          "; check the NCCL_ variables of the environment, and that every rank has a GPU of its own "
          "(slices of one, MIG, do not count: give --distributed-backend mpi)");
    case NcclResult::kInternalError:
    case NcclResult::kInvalidArgument:
      break;
  }
  throw std::logic_error(text);
}

}  // namespace weft
