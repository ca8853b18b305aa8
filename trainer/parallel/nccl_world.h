// Communicators over NCCL, for ranks that have a GPU each.
//
// NCCL's id travels over the control plane. All ranks enter one communicator first, and those of
// the groups are split from it [NCCL user guide, "Creating a communicator"]. Sums run around a
// ring: a bf16 value is rounded after every rank, as in Megatron. Algorithm and protocol are
// pinned, because NCCL's own choice depends on sizes and versions and another choice sums in
// another order; NCCL_ALGO and NCCL_PROTO of the environment win.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/parallel/communicator.h"
#include "trainer/ranks/host_group.h"

namespace weft {

class NcclWorld {
 public:
  virtual ~NcclWorld() = default;
  // Every rank of the run calls it at the same time with its own group, ranks ascending; a rank
  // that is alone gets the communicator of a group of one. Operations of each kind have run on
  // return; exchange() only in a group that `exchanges`.
  virtual std::unique_ptr<Communicator> split(const std::vector<int>& ranks,
                                              const std::string& name, bool exchanges) = 0;
  // "NCCL 2.28.9, NCCL_ALGO=Ring, NCCL_PROTO=Simple"
  virtual std::string description() const = 0;
};

// All ranks of `host` call it together; both arguments outlive the world and what is split from it.
// Throws UsageError if this program was built without NCCL, and as throw_nccl_failure()
// where NCCL fails; so do its operations.
std::unique_ptr<NcclWorld> create_nccl_world(HostGroup& host, Backend& backend);

}  // namespace weft
