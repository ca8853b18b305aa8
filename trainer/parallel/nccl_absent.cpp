// The answer of a build without NCCL.

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/parallel/nccl_world.h"

namespace weft {

std::unique_ptr<NcclWorld> create_nccl_world(HostGroup& /*host*/, Backend& /*backend*/) {
  throw UsageError(
      "several ranks on GPUs need NCCL 2.26 or newer, and weft-train was built without it: install "
      "libnccl-dev and build again, give --distributed-backend mpi (slower, through host memory), "
      "or start one process");
}

}  // namespace weft
