// The number of processes that were started together, as their launcher tells it in the
// environment:
//
//   mpirun (Open MPI)              OMPI_COMM_WORLD_SIZE
//   srun --mpi=pmix                PMIX_RANK; SLURM_STEP_NUM_TASKS says how many
//   srun --mpi=pmi2, other MPIs    PMI_RANK, PMI_SIZE
//   srun --mpi=none                SLURM_STEP_NUM_TASKS alone
//
// The first of these counts: mpirun inside a Slurm job inherits Slurm's variables. A batch script
// and the shell of salloc have them too, but are one process: only SLURM_STEP_ID marks a task of
// srun.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace weft {

struct Launch {
  int64_t num_processes = 1;  // 0: the launcher does not say
  bool has_mpi = false;       // the processes can find each other through MPI
  std::string source;         // the variables that say so, with their values; empty without any
};

using FindVariable = std::function<std::optional<std::string>(const char* name)>;

// Throws UsageError, which names the variable, where a number is none.
Launch find_launch(const FindVariable& find_variable);
// Reads it from the environment of this process.
Launch find_launch();

}  // namespace weft
