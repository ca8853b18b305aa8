// The communicator of ranks whose tensors lie in memory of the host: MPI between processes, memory
// between threads of a test. Each rank sums its part of a tensor in the order of the ranks, so
// results depend on the group's size alone, and every rank gets the same bits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/parallel/communicator.h"
#include "trainer/ranks/host_group.h"

namespace weft {

// `ranks` are those of the whole run, ascending, and host.rank() is one of them. `channel` is this
// group's own among those of each pair of ranks. `name` ("data") stands in the flight recorder.
std::unique_ptr<Communicator> create_host_communicator(HostGroup& host, std::vector<int> ranks,
                                                       int channel, std::string name);

}  // namespace weft
