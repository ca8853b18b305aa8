#include "trainer/parallel/parallel_layout.h"

#include <fmt/format.h>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

bool is_together(const ParallelLayout& a, const ParallelLayout& b, GroupKind kind) {
  const bool tp = a.tp_rank == b.tp_rank, pp = a.pp_rank == b.pp_rank, dp = a.dp_rank == b.dp_rank;
  const auto is_end = [](const ParallelLayout& layout) {
    return layout.pp_rank == 0 || layout.pp_rank == layout.pp_size - 1;
  };
  switch (kind) {
    case GroupKind::kTensor:
      return pp && dp;
    case GroupKind::kPipeline:
      return tp && dp;
    case GroupKind::kData:
      return tp && pp;
    case GroupKind::kModel:
      return dp;
    case GroupKind::kTied:
      return tp && dp && (pp || (is_end(a) && is_end(b)));
  }
  return false;
}

}  // namespace

const char* name_of(RankOrder order) {
  return order == RankOrder::kTpDpPp ? "tp-dp-pp" : "tp-pp-dp";
}

const char* name_of(GroupKind kind) {
  constexpr const char* kNames[] = {"tensor", "pipeline", "data", "model", "tied"};
  return kNames[static_cast<size_t>(kind)];
}

int ParallelLayout::world_rank() const {
  return order == RankOrder::kTpDpPp ? tp_rank + tp_size * (dp_rank + dp_size * pp_rank)
                                     : tp_rank + tp_size * (pp_rank + pp_size * dp_rank);
}

Topology topology_of(int64_t world_size, int64_t tp_size, int64_t pp_size, RankOrder order) {
  if (tp_size < 1 || pp_size < 1 || world_size % (tp_size * pp_size) != 0) {
    throw UsageError(
        fmt::format("{} ranks are not a multiple of --tensor-model-parallel-size {} times "
                    "--pipeline-model-parallel-size {}",
                    world_size, tp_size, pp_size));
  }
  return {static_cast<int>(tp_size), static_cast<int>(pp_size),
          static_cast<int>(world_size / (tp_size * pp_size)), order, false};
}

ParallelLayout layout_of(const Topology& topology, int rank) {
  ParallelLayout layout;
  static_cast<Topology&>(layout) = topology;
  layout.tp_rank = rank % topology.tp_size;
  const int rest = rank / topology.tp_size;
  if (topology.order == RankOrder::kTpDpPp) {
    layout.dp_rank = rest % topology.dp_size;
    layout.pp_rank = rest / topology.dp_size;
  } else {
    layout.pp_rank = rest % topology.pp_size;
    layout.dp_rank = rest / topology.pp_size;
  }
  return layout;
}

std::vector<int> ranks_of(const ParallelLayout& layout, GroupKind kind) {
  std::vector<int> ranks;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    if (is_together(layout, layout_of(layout, rank), kind)) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace weft
