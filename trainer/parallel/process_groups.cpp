#include "trainer/parallel/process_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/parallel/host_communicator.h"

namespace weft {
namespace {

constexpr GroupKind kKinds[] = {GroupKind::kTensor, GroupKind::kPipeline, GroupKind::kData,
                                GroupKind::kModel, GroupKind::kTied};

std::unique_ptr<Communicator>& place_of(ProcessGroups& groups, GroupKind kind) {
  switch (kind) {
    case GroupKind::kTensor:
      return groups.tensor;
    case GroupKind::kPipeline:
      return groups.pipeline;
    case GroupKind::kData:
      return groups.data;
    case GroupKind::kModel:
      return groups.model;
    case GroupKind::kTied:
      break;
  }
  return groups.tied;
}

}  // namespace

Communicator& ProcessGroups::of(GroupKind kind) const {
  return *place_of(const_cast<ProcessGroups&>(*this), kind);
}

ProcessGroups create_lone_process_groups() {
  ProcessGroups groups;
  for (const GroupKind kind : kKinds) place_of(groups, kind) = create_self_communicator();
  return groups;
}

const ProcessGroups& lone_process_groups() {
  static const ProcessGroups groups = create_lone_process_groups();
  return groups;
}

ProcessGroups create_host_process_groups(HostGroup& host, const Topology& topology) {
  ProcessGroups groups;
  groups.layout = layout_of(topology, host.rank());
  groups.host = &host;
  for (const GroupKind kind : kKinds) {
    const std::vector<int> ranks = ranks_of(groups.layout, kind);
    // Each kind of group is a channel: a rank is in one group of a kind.
    place_of(groups, kind) =
        ranks.size() == 1
            ? create_self_communicator()
            : create_host_communicator(host, ranks, static_cast<int>(kind), name_of(kind));
  }
  return groups;
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
