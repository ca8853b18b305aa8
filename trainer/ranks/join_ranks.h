// How a process becomes a rank of its run.
//
//   mpirun -n 4 weft-train ...                   ranks of Open MPI
//   srun --ntasks=4 --mpi=pmix weft-train ...    the same under Slurm
//   weft-train ...                               a process of its own; MPI is not touched
//
// Other launchers (srun without MPI, torchrun) start processes that cannot find each other through
// MPI. They are refused, because each would train alone and overwrite the others' checkpoints.
#pragma once

#include <memory>

#include "indexed_dataset/base/ranks/launcher.h"
#include "trainer/ranks/host_group.h"
#include "trainer/ranks/transport_group.h"

namespace weft {

// Joins the processes that were started together with this one; a process alone gets a group of
// one. Throws UsageError, which says how to start, where they cannot find each other or
// this program was built without MPI, and std::runtime_error if MPI fails.
std::unique_ptr<HostGroup> join_ranks(TransportGroupOptions options);

// Returns how this process was started. Throws UsageError for a launcher without MPI.
Launch find_launch_of_ranks(const FindVariable& find_variable);

}  // namespace weft
