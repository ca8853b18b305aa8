// A communicator of ranks on GPUs whose data goes through pinned host memory and MPI. It is slow
// and makes the host wait, but it needs neither NCCL nor a GPU for each rank: ranks that share one
// GPU run every topology with the real kernels.
#pragma once

#include <memory>

#include "trainer/parallel/communicator.h"

namespace weft {

// The size of `staging` below, in bytes.
constexpr int64_t kPinnedStagingBytes = 64 << 20;

// `host` does the operations in `staging` (uint8, pinned), through which tensors of `backend` go in
// pieces. The communicators of a rank may share the staging; it and the backend outlive them.
std::unique_ptr<Communicator> create_pinned_communicator(Backend& backend, Tensor staging,
                                                         std::unique_ptr<Communicator> host);

}  // namespace weft
