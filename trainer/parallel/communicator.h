// Collective operations over one group of ranks. They are enqueued on a stream of the backend and
// return at once; those that go through host memory are done when they return. Every rank of the
// group calls the same operations, with the same sizes, in the same order. Sums are made in a fixed
// order, so two runs of one topology get equal bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/ranks/host_group.h"

namespace weft {

enum class Reduce { kSum, kMax };

// Memory of this rank that goes to, or comes from, rank `peer` of the group.
struct Transfer {
  Tensor tensor;
  int peer = 0;
  bool sends = false;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  // in the group
  virtual int size() const = 0;
  // Reductions take fp32, bf16 and fp16; the others take every type. Host memory sums bf16 and fp16
  // in fp32 and rounds once, NCCL rounds after every rank.
  virtual void all_reduce(Tensor inout, Reduce reduce, Stream stream) = 0;
  // inp = size() times out, in rank order. `out` may be this rank's part of `inp`.
  virtual void reduce_scatter(Tensor out, Tensor inp, Stream stream) = 0;
  // out = size() times inp, in rank order. `inp` may be this rank's part of `out`.
  virtual void all_gather(Tensor out, Tensor inp, Stream stream) = 0;
  virtual void broadcast(Tensor inout, int root, Stream stream) = 0;
  // Starts all transfers together, so that no send can block a receive.
  virtual void exchange(std::span<const Transfer> transfers, Stream stream) = 0;
  // Throws where an operation that is under way has failed and the library can tell. It never
  // waits.
  virtual void throw_if_failed() {}
};

// Creates the communicator of a group of one. Its reductions are the identity; gather and scatter
// copy nothing because `out` and `inp` must be the same memory.
std::unique_ptr<Communicator> create_self_communicator();

// Creates the communicator of ranks whose tensors lie in memory of the host: MPI between processes,
// memory between threads of a test. Each rank sums its part of a tensor in the order of the ranks,
// so results depend on the group's size alone, and every rank gets the same bits. `ranks` are those
// of the whole run, ascending, and host.rank() is one of them. `channel` is this group's own among
// those of each pair of ranks. `name` ("data") stands in the flight recorder.
std::unique_ptr<Communicator> create_host_communicator(HostGroup& host, std::vector<int> ranks,
                                                       int channel, std::string name);

// Creates the communicator of ranks on GPUs whose data goes through pinned host memory and MPI. It
// is slow and makes the host wait, but it needs neither NCCL nor a GPU for each rank: ranks that
// share one GPU run every topology with the real kernels. `host` does the operations in `staging`
// (uint8, pinned), through which tensors of `backend` go in pieces. The communicators of a rank may
// share the staging; it and the backend outlive them.
std::unique_ptr<Communicator> create_pinned_communicator(Backend& backend, Tensor staging,
                                                         std::unique_ptr<Communicator> host);
// The size of `staging`, in bytes.
constexpr int64_t kPinnedStagingBytes = 64 << 20;

// Throws UsageError unless `whole` is `size` times `part`, of the same type.
void check_parts(Tensor whole, Tensor part, int size);

}  // namespace weft
