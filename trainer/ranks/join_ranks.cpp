#include "trainer/ranks/join_ranks.h"

#include <cstdlib>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr char kHowToStart[] =
    "start the ranks with srun --mpi=pmix, or with mpirun -n N weft-train ...";

std::optional<std::string> find_in_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

// torchrun sets both, and LOCAL_RANK [torch/distributed/elastic/agent].
void refuse_torchrun(const FindVariable& find_variable) {
  const auto size = find_variable("WORLD_SIZE"), rank = find_variable("RANK");
  if (!size || !rank || std::atoi(size->c_str()) <= 1) return;
  throw UsageError("torchrun's variables (RANK=" + *rank + ", WORLD_SIZE=" + *size +
                   ") do not let the ranks of weft-train find each other; " + kHowToStart +
                   "; unset them if this process is alone");
}

}  // namespace

Launch find_launch_of_ranks(const FindVariable& find_variable) {
  Launch launch = find_launch(find_variable);
  if (launch.num_processes == 1 && !launch.has_mpi) refuse_torchrun(find_variable);
  if (launch.num_processes != 1 && !launch.has_mpi) {
    throw UsageError("srun has started several tasks that do not know each other (" +
                     launch.source + ", and no PMIX_RANK); " + kHowToStart);
  }
  return launch;
}

std::unique_ptr<HostGroup> join_ranks(TransportGroupOptions options) {
  const Launch launch = find_launch_of_ranks(find_in_environment);
  if (launch.num_processes == 1) return create_lone_host_group(std::move(options));
  std::unique_ptr<RankTransport> transport = make_mpi_transport(
      "start one process", {options.timeout, "--distributed-timeout-minutes", options.print_error});
  if (transport->num_ranks() > 1) {
    return std::make_unique<TransportGroup>(std::move(transport), std::move(options));
  }
  transport->end();
  if (launch.num_processes == 0) return create_lone_host_group(std::move(options));
  throw UsageError("several processes were started together (" + launch.source +
                   "), but Open MPI finds one: the launcher is of another MPI; " + kHowToStart);
}

}  // namespace weft
