// Gathers the parameters that data-parallel ranks have updated for each other, while the next
// forward already runs.
//
// Forward needs the arena from its end: the word embedding and what is replicated, then layer after
// layer (gradient_reducer.h). Buckets are gathered in that order on the reduction stream, and the
// compute stream waits for a layer's bucket when it gets to the layer.
#pragma once

#include <vector>

#include "trainer/parallel/gradient_reducer.h"

namespace weft {

class ParameterGatherer {
 public:
  // All must outlive the gatherer.
  ParameterGatherer(Backend& backend, const ProcessGroups& groups, const ArenaShards& shards);

  // Takes the arena of parameters, x, padded_elements() long.
  void bind(Tensor parameters);
  // The rank's part of this bucket is enqueued on the compute stream. Buckets come in falling order.
  void gather(size_t bucket);
  // What is enqueued on the compute stream from now on may read parameters from this element of the
  // arena on.
  void wait_from(int64_t arena_first);
  void wait_for_all() { wait_from(0); }

 private:
  Backend& backend_;
  Communicator& data_;
  const ArenaShards& shards_;
  Tensor parameters_;
  EventId updated_ = 0;
  std::vector<EventId> gathered_;  // by bucket
  size_t awaited_ = 0;             // the compute stream has waited for the buckets from here on
};

}  // namespace weft
