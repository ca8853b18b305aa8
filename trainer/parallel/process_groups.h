// The communicators of one rank: one for each group that it belongs to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/parallel/communicator.h"
#include "trainer/parallel/parallel_layout.h"
#include "trainer/ranks/host_group.h"

namespace weft {

struct ProcessGroups {
  ParallelLayout layout;
  HostGroup* host = nullptr;  // all ranks; it outlives the groups; null where nobody watches
  // Groups of the same ranks share a communicator: each one takes memory of the device.
  std::shared_ptr<Communicator> tensor, pipeline, data;
  std::shared_ptr<Communicator> model;  // tensor times pipeline, for gradient norms
  std::shared_ptr<Communicator> tied;   // the first and last stage, which share the word embedding

  std::shared_ptr<Communicator>& of(GroupKind kind);
  // Waits until `event` of `backend` has happened. Where a rank does not come, the device waits for
  // it, and the host for the device: the wait is recorded, and ends where a communicator has
  // failed.
  void wait_for(Backend& backend, EventId event) const;
  // Where a process alone records its own work, so that a message can say where it hangs; null with
  // several ranks, which record what needs others, and where nobody watches.
  FlightRecorder* recorder_of_own_work() const;
};

// The device memory that NCCL takes for a group of several ranks, as measured on two H200s of one
// host (NCCL 2.28.3, Ring, Simple; tests/bench/results/2026-11-23-ranks-h200.md). Larger groups
// have not been measured. The log of a run tells what all of its groups have really taken.
constexpr int64_t kNcclGroupBytes = int64_t{672} << 20;
// The number of groups of several ranks that take such memory.
int num_groups_of_several(const Topology& topology);

// Creates the groups of a process that is alone.
ProcessGroups create_lone_process_groups(HostGroup* host = nullptr);
// Returns such groups, which live as long as the program.
const ProcessGroups& lone_process_groups();

// Creates the groups of ranks on CPUs. `topology` has host.size() ranks.
ProcessGroups create_host_process_groups(HostGroup& host, const Topology& topology);
// The same for ranks on GPUs, whose data goes through pinned host memory. `backend` outlives them.
ProcessGroups create_pinned_process_groups(HostGroup& host, const Topology& topology,
                                           Backend& backend);
// The same over NCCL; each rank has a GPU of its own. Throws as create_nccl_world(). `description`
// gets that of the library. exchange() is for pipeline stages, and for data-parallel ranks where
// `data_ranks_exchange` is set (Muon on shards).
ProcessGroups create_nccl_process_groups(HostGroup& host, const Topology& topology,
                                         Backend& backend, bool data_ranks_exchange,
                                         std::string& description);

// All ranks call it. Throws UsageError on each where two of them have the same device;
// `device_id` is this rank's (Backend::device_id).
void check_devices_differ(HostGroup& host, const std::string& device_id);

// Returns a table of all ranks for people: rank, host, device, and the place in each group.
// `devices` is one text for each rank.
std::string rank_table(const HostGroup& host, const Topology& topology,
                       const std::vector<std::string>& devices);

}  // namespace weft
