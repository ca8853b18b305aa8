// The place of each rank of a run among its tensor-, data- and pipeline-parallel groups.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// The dimension that changes fastest with the rank stands first.
//   tp-dp-pp   rank = tp + TP * (dp + DP * pp)    Megatron's default
//   tp-pp-dp   rank = tp + TP * (pp + PP * dp)    --use-tp-pp-dp-mapping
// [Megatron-LM megatron/core/parallel_state.py]
enum class RankOrder { kTpDpPp, kTpPpDp };
const char* name_of(RankOrder order);

struct Topology {
  int tp_size = 1, pp_size = 1, dp_size = 1;
  RankOrder order = RankOrder::kTpDpPp;
  // Each tensor-parallel rank has its rows of what all of them would hold whole: LayerNorms,
  // residuals, hidden dropout. Alone, a rank has all rows.
  bool sequence_parallel = false;
  // With interleaved stages each pipeline rank holds several chunks of the layers. The model is cut
  // into num_stages() stages; pipeline rank r holds stages r, r + pp_size, r + 2 * pp_size and so
  // on.
  int64_t num_chunks = 1;
  // The number of layers of each of the num_stages(); empty: all have equally many.
  std::vector<int64_t> stage_layers = {};
  int64_t num_stages() const { return pp_size * num_chunks; }
  int world_size() const { return tp_size * pp_size * dp_size; }
  int num_row_shares() const { return sequence_parallel ? tp_size : 1; }
};

struct Coordinates {
  int tp_rank = 0, pp_rank = 0, dp_rank = 0;
};

// The topology of a run together with the place of one rank in it.
struct ParallelLayout : Topology, Coordinates {
  int world_rank() const;
};

// Returns the topology of `world_size` ranks: what tensor and pipeline parallelism leave over is
// data parallelism. Throws UsageError, which names all sizes, where they do not divide.
Topology topology_of(int64_t world_size, int64_t tp_size, int64_t pp_size,
                     RankOrder order = RankOrder::kTpDpPp);

ParallelLayout layout_of(const Topology& topology, int rank);

// kModel is the ranks that hold one copy of the model together (gradient norms); kTied the first
// and last stage of a pipeline, which both hold the word embedding.
enum class GroupKind { kTensor, kPipeline, kData, kModel, kTied };
constexpr GroupKind kGroupKinds[] = {GroupKind::kTensor, GroupKind::kPipeline, GroupKind::kData,
                                     GroupKind::kModel, GroupKind::kTied};
const char* name_of(GroupKind kind);

// Returns the ranks of the group of this kind to which `layout` belongs, in ascending order. A
// middle stage belongs to no tied pair: it gets its own rank alone.
std::vector<int> ranks_of(const ParallelLayout& layout, GroupKind kind);

}  // namespace weft
