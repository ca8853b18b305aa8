// Compares what a run needs of its host with the limits of the process and the machine before the
// first step, so that it ends with a sentence and not with an abort underway.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "indexed_dataset/order/samples/gpt_dataset.h"
#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/identity/data_identity.h"
#include "trainer/ranks/host_group.h"

namespace weft {

// Returns the bytes of host memory that programs may still take.
int64_t free_host_bytes();

// Returns the bytes of the sample indexes of all splits, which lie in host memory. They grow with
// the number of samples, not with the model.
int64_t sample_index_bytes(const DatasetTargetSizes& sizes,
                           std::span<const DatasetIdentity> datasets, int64_t seq_length);

// A rank's share of its host's memory, beside the plan of its model.
struct HostNeeds {
  int64_t index_bytes = 0;  // sample_index_bytes()
  int64_t slot_bytes = 0;   // of the data loaders
  int64_t num_loader_threads = 0;
};

// Tells what to change so that a run fits into so many bytes of a device (memory_advice.h).
using MemoryAdvice = std::function<std::string(int64_t free_bytes)>;

// Throws LimitExceeded, with both numbers and the advice, where the plan needs more memory than the
// device has free, or the host has too little memory or address space (ulimit -v) for its part.
void check_device_memory(int64_t needed_bytes, int64_t free_bytes, const std::string& device,
                         const MemoryAdvice& advice);
// The same for the host's memory and the snapshots (--async-save) of all its ranks.
void check_snapshot_memory(int64_t needed_bytes, int64_t free_bytes, const std::string& host);
void check_memory(const MemoryPlan& plan, const Backend& backend, const HostNeeds& needs,
                  const MemoryAdvice& advice);

// Returns the bytes of its host's memory that a rank needs.
int64_t host_bytes(const MemoryPlan& plan, const Backend& backend, const HostNeeds& needs);
// Returns how many ranks the host of this one has.
int64_t num_ranks_on_host(const HostGroup& ranks);
// Throws LimitExceeded where the ranks of a host need more memory together than it has free: each
// of them alone may find enough.
void check_memory_of_host(int64_t num_ranks, int64_t needed_bytes, int64_t free_bytes,
                          const std::string& host);
// The same for one rank where a device profile tells its share of the host's memory.
void check_host_share(int64_t needed_bytes, int64_t share_bytes, const std::string& profile);
// The same for the host of every rank. All ranks call it, with what they need and see free, before
// one of them takes its memory.
void check_memory_of_hosts(HostGroup& ranks, int64_t needed_bytes, int64_t free_bytes);

// Starts as many threads as the run will have at a time, and ends them. Throws LimitExceeded if the
// process may not have so many (ulimit -u): a thread that is missing later would end the process.
void check_threads(int64_t num_loader_threads);

}  // namespace weft
