// Options with which a run that does not fit its devices would fit them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "trainer/config/config.h"

namespace weft {

// Memory of a rank.
struct RankBytes {
  int64_t device = 0;
  int64_t host =
      0;  // pinned memory of the plan; not the index of the samples nor the loaders' slots
};

// Returns the bytes that a rank of such a run needs.
using PlanRank = std::function<RankBytes(const Config& config)>;

// Returns what a run may add to need at most `free` for each rank, the options that cost least time
// first, or what is left to lower where none suffices. `plan_rank` plans each of them. Where
// nothing is known of the host, free.host is the largest number.
std::string memory_advice(const Config& config, const RankBytes& free, const PlanRank& plan_rank);

// Returns the memory of the ranks that plan the most. `planned_multiprocessors` are those of a GPU
// that is not there (TrainerOptions).
RankBytes largest_rank_bytes(const Config& config, int64_t vocab_size, Backend& backend,
                             std::optional<int> planned_multiprocessors = {});

}  // namespace weft
