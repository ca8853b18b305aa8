// Which of how many processes this one is, as its launcher says it in the environment.
//
//   mpirun (Open MPI)        OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   srun --mpi=pmix          PMIX_RANK; how many: OMPI_COMM_WORLD_SIZE, PMI_SIZE or Slurm's
//   srun --mpi=pmi2, MPICH   PMI_RANK, PMI_SIZE
//   srun                     SLURM_PROCID, SLURM_STEP_NUM_TASKS (else SLURM_NTASKS)
//   torchrun, own scripts    RANK, WORLD_SIZE
//
// The first of these that is there counts. A Slurm batch script and the shell of salloc have
// SLURM_PROCID and SLURM_NTASKS too, but are one process: only what srun started (SLURM_STEP_ID is
// set) is a rank of Slurm's.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace weft {

struct RankEnvironment {
  int rank = 0;
  int num_ranks = 1;
  // The variables that say so, for messages: "SLURM_PROCID and SLURM_NTASKS"; empty for a process
  // of its own.
  std::string source;
  // Equal in all ranks of one start, different in the next start (also of the same Slurm job after
  // a requeue), as far as the launcher tells; empty where it does not.
  std::string launch_id;
};

using FindVariable = std::function<std::optional<std::string>(const char* name)>;

// Throws std::invalid_argument, which names the variables and their values, when a rank comes
// without a number of ranks, is not below it, is no number, or when two launchers say different
// things about the same number of ranks.
RankEnvironment find_rank_environment(const FindVariable& find_variable);
// The same from this process's environment.
RankEnvironment find_rank_environment();

}  // namespace weft
