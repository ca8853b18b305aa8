// Options with which a run that does not fit its devices would fit them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "trainer/config/config.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/step/trainer.h"

namespace weft {

// Memory of a rank.
struct RankBytes {
  int64_t device = 0;
  // Pinned memory of the plan; not the index of the samples nor the loaders' slots.
  int64_t host = 0;
};

// Returns the bytes that a rank of such a run needs.
using PlanRank = std::function<RankBytes(const Config& config)>;

// Returns what a run may add to need at most `free` for each rank, the options that cost least time
// first, or what is left to lower where none suffices. `plan_rank` plans each of them. Where
// nothing is known of the host, free.host is the largest number.
std::string memory_advice(const Config& config, const RankBytes& free, const PlanRank& plan_rank);

// A pipeline stage, each of whose ranks plans the same memory.
class PlannedStage {
 public:
  PlannedStage(const Config& config, Backend& backend, const TrainerOptions& options,
               const Topology& topology, int stage);
  const MemoryPlan& plan() const { return trainer_->plan(); }
  int64_t snapshot_bytes() const { return snapshot_bytes_; }  // with --async-save

 private:
  ProcessGroups groups_ = create_lone_process_groups();
  std::unique_ptr<Trainer> trainer_;
  Tensor staging_, snapshot_;
  int64_t snapshot_bytes_ = 0;
};

// Plans all stages of a run. `planned_multiprocessors` are those of a GPU that is not there
// (TrainerOptions).
std::deque<PlannedStage> plan_stages(const Config& config, int64_t vocab_size, Backend& backend,
                                     std::optional<int> planned_multiprocessors);

// Returns the memory of the ranks that plan the most.
RankBytes largest_rank_bytes(const Config& config, int64_t vocab_size, Backend& backend,
                             std::optional<int> planned_multiprocessors = {});

}  // namespace weft
