// Gathers the parameters that data-parallel ranks have updated for each other, while the next
// forward already runs.
//
// Forward needs the arena from its end: the word embedding and what is replicated, then layer after
// layer (gradient_reducer.h). Buckets are gathered in that order on the reduction stream, and the
// compute stream waits for a layer's bucket when it gets to the layer.
//
// Without tensor parallelism a bucket is enqueued when it is updated, so that it is gathered beside
// the update of the next one. With it, forward's collectives would wait: NCCL starts operations of
// all communicators in the order in which the host enqueues them, and a collective of the first
// layer would not start before the last bucket has. A layer's buckets are then enqueued one layer
// ahead. The order of enqueuing follows from the program alone, so it is the same on all ranks.
#pragma once

#include <vector>

#include "trainer/parallel/arena.h"
#include "trainer/parallel/process_groups.h"

namespace weft {

class ParameterGatherer {
 public:
  // All must outlive the gatherer. All ranks call the same functions in the same order.
  ParameterGatherer(Backend& backend, const ProcessGroups& groups, const ArenaShards& shards);

  // Takes the arena of parameters, x, padded_elements() long.
  void bind(Tensor parameters);
  // The rank's part of this bucket is enqueued on the compute stream. Buckets come in falling
  // order, all of them before the first wait.
  void gather(size_t bucket);
  // Work that is enqueued on the compute stream from now on may read parameters from this element
  // of the arena on; those from `next_first` on are needed soon.
  void wait_from(int64_t arena_first, int64_t next_first);
  void wait_for_all() { wait_from(0, 0); }

 private:
  void enqueue(size_t bucket);
  // Returns the lowest bucket that holds elements from this one on, at most `limit`.
  size_t lowest_bucket(int64_t arena_first, size_t limit) const;

  Backend& backend_;
  Communicator& data_;
  const ArenaShards& shards_;
  const bool ahead_;  // enqueues one layer ahead, not at the update
  Tensor parameters_;
  std::vector<EventId> updated_, gathered_;  // by bucket
  size_t enqueued_ = 0;                      // the buckets from here on are enqueued
  size_t awaited_ = 0;  // the compute stream has waited for the buckets from here on
};

}  // namespace weft
