// Sums gradients over ranks while backward still runs.
//
// The arena of gradients lies in the order in which backward finishes it. It is cut into buckets of
// equal size; each is reduced when the layers that lie in it are done:
//
//   arena     | layer L-1 |  ...  | layer 0 | word embedding | LayerNorms, biases, positions |
//   buckets   |      0       |       1       |       2       |       3                       |
//   sharded   | r0 r1 r2 r3  | r0 r1 r2 r3   |  ...    each rank keeps the sums of its part
//
// With sequence parallelism each tensor-parallel rank has summed the gradients of the LayerNorms,
// biases and positions over its own rows, so that region is first summed over the tensor-parallel
// ranks, once per step. Norms of queries and keys, which lie at its end, are summed so in any case:
// each rank has made their gradients from its own heads.
//
// The first and the last stage of a pipeline both hold the word embedding and have each a part of
// its gradient. The two parts are summed when each is already the sum over its data-parallel ranks:
// the sum of two numbers does not depend on their order, so both copies get the same bits. For that
// the embedding has buckets of its own, cut alike on both stages.
//
// The data-parallel sums run on the reduction stream while backward goes on on the compute
// stream. Replicated, every rank gets the sums of all buckets (all-reduce). Sharded (ZeRO-1), it
// gets those of its part of each bucket (reduce-scatter), updates that part, and the parameters are
// gathered (all-gather). [Rajbhandari et al. 2020, arXiv:1910.02054]
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "trainer/parallel/arena.h"
#include "trainer/parallel/process_groups.h"

namespace weft {

class GradientReducer {
 public:
  // All must outlive the reducer. `partial` are the gradients that tensor-parallel ranks sum,
  // `tied` those that the first and the last stage sum; both may be empty.
  GradientReducer(Backend& backend, const ProcessGroups& groups, const ArenaShards& shards,
                  ArenaRange partial, ArenaRange tied);

  // Takes the arena of gradients, fp32, padded_elements() long.
  void bind(Tensor gradients);
  // Backward of the last micro-batch begins: from now on gradients are final when they are done.
  void begin() { num_reduced_ = 0; }
  // The gradients up to this element of the arena are enqueued.
  void layer(int64_t arena_end);
  // All gradients are enqueued. The compute stream waits for the sums.
  void finish();

 private:
  void reduce(const ArenaRange& bucket);
  void sum_tied();

  Backend& backend_;
  Communicator& tensor_;
  Communicator& data_;
  Communicator& ends_;  // the first and the last stage
  const ArenaShards& shards_;
  const ArenaRange partial_, tied_;
  Tensor gradients_;
  EventId ready_ = 0, reduced_ = 0;  // of the latest bucket
  size_t num_reduced_ = 0;           // buckets
};

}  // namespace weft
