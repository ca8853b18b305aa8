#include "trainer/parallel/process_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/parallel/nccl_world.h"

namespace weft {
namespace {

// By GroupKind.
constexpr std::shared_ptr<Communicator> ProcessGroups::*kMembers[] = {
    &ProcessGroups::tensor, &ProcessGroups::pipeline, &ProcessGroups::data, &ProcessGroups::model,
    &ProcessGroups::tied};

}  // namespace

std::shared_ptr<Communicator>& ProcessGroups::of(GroupKind kind) {
  return this->*kMembers[static_cast<size_t>(kind)];
}

void ProcessGroups::wait_for(Backend& backend, EventId event) const {
  constexpr char kName[] = "the device, which ends a step";
  if (host == nullptr || host->size() == 1) {
    const FlightRecorder::Scope scope(recorder_of_own_work(), kName);
    return backend.synchronize(event);
  }
  constexpr std::chrono::milliseconds kCheckInterval{100};
  const FlightRecorder::Scope scope(host->recorder(), kName);
  auto checked = std::chrono::steady_clock::now();
  while (!backend.has_happened(event)) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (std::chrono::steady_clock::now() - checked < kCheckInterval) continue;
    for (const auto member : kMembers) (this->*member)->throw_if_failed();
    checked = std::chrono::steady_clock::now();
  }
}

FlightRecorder* ProcessGroups::recorder_of_own_work() const {
  return host != nullptr && host->size() == 1 ? &host->recorder() : nullptr;
}

int num_groups_of_several(const Topology& topology) {
  std::set<std::vector<int>> groups;
  for (const GroupKind kind : kGroupKinds) {
    std::vector<int> ranks = ranks_of(layout_of(topology, 0), kind);
    if (ranks.size() > 1) groups.insert(std::move(ranks));
  }
  return static_cast<int>(groups.size());
}

ProcessGroups create_lone_process_groups(HostGroup* host) {
  ProcessGroups groups;
  groups.host = host;
  for (const GroupKind kind : kGroupKinds) groups.of(kind) = create_self_communicator();
  return groups;
}

const ProcessGroups& lone_process_groups() {
  static const ProcessGroups groups = create_lone_process_groups();
  return groups;
}

namespace {

// `create` is called for each kind of group in turn, with this rank's group, on all ranks alike;
// but not for a kind whose groups are those of a kind before.
template <typename Create>
ProcessGroups create_groups(HostGroup& host, const Topology& topology, const Create& create) {
  ProcessGroups groups;
  groups.layout = layout_of(topology, host.rank());
  groups.host = &host;
  for (const GroupKind kind : kGroupKinds) {
    const std::vector<int> ranks = ranks_of(groups.layout, kind);
    std::shared_ptr<Communicator>& place = groups.of(kind);
    for (const GroupKind before : kGroupKinds) {
      if (before == kind || ranks.size() == 1) break;
      if (ranks_of(groups.layout, before) == ranks) place = groups.of(before);
    }
    if (place == nullptr) place = create(ranks, kind);
  }
  return groups;
}

// Each kind of group is a channel: a rank is in one group of a kind.
std::unique_ptr<Communicator> create_on_host(HostGroup& host, const std::vector<int>& ranks,
                                             GroupKind kind) {
  if (ranks.size() == 1) return create_self_communicator();
  return create_host_communicator(host, ranks, static_cast<int>(kind), name_of(kind));
}

}  // namespace

ProcessGroups create_host_process_groups(HostGroup& host, const Topology& topology) {
  return create_groups(host, topology, [&](const std::vector<int>& ranks, GroupKind kind) {
    return create_on_host(host, ranks, kind);
  });
}

ProcessGroups create_pinned_process_groups(HostGroup& host, const Topology& topology,
                                           Backend& backend) {
  const Tensor staging(backend.allocate(kPinnedStagingBytes, Memory::kPinnedHost), DType::kUInt8,
                       {kPinnedStagingBytes});
  return create_groups(host, topology, [&](const std::vector<int>& ranks, GroupKind kind) {
    auto on_host = create_on_host(host, ranks, kind);
    if (ranks.size() == 1) return on_host;
    return create_pinned_communicator(backend, staging, std::move(on_host));
  });
}

ProcessGroups create_nccl_process_groups(HostGroup& host, const Topology& topology,
                                         Backend& backend, bool data_ranks_exchange,
                                         std::string& description) {
  const std::unique_ptr<NcclWorld> world = create_nccl_world(host, backend);
  const int64_t free_bytes = backend.free_memory_bytes();
  ProcessGroups groups =
      create_groups(host, topology, [&](const std::vector<int>& ranks, GroupKind kind) {
        return world->split(
            ranks, name_of(kind),
            kind == GroupKind::kPipeline || (kind == GroupKind::kData && data_ranks_exchange));
      });
  description = fmt::format("{}, {} MiB for {} groups of this rank", world->description(),
                            (free_bytes - backend.free_memory_bytes()) >> 20,
                            num_groups_of_several(topology));
  host.all_gather("");  // the world may go when no rank needs it any more
  return groups;
}

void check_devices_differ(HostGroup& host, const std::string& device_id) {
  const std::vector<std::string> ids = host.all_gather(device_id);
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    const auto first =
        static_cast<size_t>(std::find(ids.begin(), ids.end(), ids[rank]) - ids.begin());
    if (first == rank) continue;
    throw UsageError(fmt::format(
        "{} and {} have the same GPU ({}): start no more ranks on a host than it has GPUs, or give "
        "--distributed-backend mpi, by which ranks share a GPU (slowly)",
        host.name_of(static_cast<int>(first)), host.name_of(static_cast<int>(rank)), ids[rank]));
  }
}

std::string rank_table(const HostGroup& host, const Topology& topology,
                       const std::vector<std::string>& devices) {
  size_t width = 4;
  for (int rank = 0; rank < host.size(); ++rank) width = std::max(width, host.host_of(rank).size());
  std::string text = fmt::format("  rank  {:{}}  tensor  data  pipeline  device\n", "host", width);
  for (int rank = 0; rank < host.size(); ++rank) {
    const ParallelLayout layout = layout_of(topology, rank);
    text += fmt::format("  {:4d}  {:{}}  {:6d}  {:4d}  {:8d}  {}\n", rank, host.host_of(rank),
                        width, layout.tp_rank, layout.dp_rank, layout.pp_rank,
                        devices[static_cast<size_t>(rank)]);
  }
  return text;
}

}  // namespace weft
