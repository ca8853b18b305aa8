// Collective operations over one group of ranks. They are enqueued on the backend's compute stream
// and return at once; every rank of the group calls the same operations in the same order.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/tensor.h"

namespace weft {

enum class Reduce { kSum, kMax };

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void all_reduce(Tensor inout, Reduce reduce) = 0;
  virtual void all_gather(Tensor out, Tensor inp) = 0;      // out = size() times inp, in rank order
  virtual void reduce_scatter(Tensor out, Tensor inp) = 0;  // inp = size() times out
  virtual void broadcast(Tensor inout, int root) = 0;
  virtual void send(Tensor inp, int to) = 0;
  virtual void recv(Tensor out, int from) = 0;
};

// Creates the communicator of a group of one. Its reductions are the identity; gather and scatter
// copy nothing because `out` and `inp` must be the same memory.
std::unique_ptr<Communicator> create_self_communicator();

}  // namespace weft
