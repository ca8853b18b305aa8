// The first operations of a communicator: one of each kind that training uses, over a few numbers.
//
// A library that lacks one of them (NCCL_ALGO=Tree has no all-gather), or whose connections carry
// wrong bytes (PCIe switches under an IOMMU do that), ends the run before it has begun.
#pragma once

#include "kernels/backend.h"
#include "trainer/parallel/communicator.h"

namespace weft {

// All ranks of the group call it. With `exchanges` each also sends to its neighbours, in a group of
// pipeline stages. It waits for the device. Throws DeviceLost where a result is wrong,
// and what the operations throw.
void run_first_operations(Communicator& communicator, Backend& backend, bool exchanges);

}  // namespace weft
