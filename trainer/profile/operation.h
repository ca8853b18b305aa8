// Descriptions of what a step enqueues (kernels/operations/operation.h): those of a backend's
// operations come with them; here are those of copies and of collectives.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/operations/operation.h"
#include "trainer/parallel/communicator.h"

namespace weft {

// Returns whether calls of both belong to one line of a profile: all but their work is equal, which
// may differ by a bias or by sums that are added to.
bool is_same_kind(const Operation& a, const Operation& b);
// Returns "linear_forward N=65536 O=2304 I=768 bf16".
std::string to_string(const Operation& operation);

Operation copy_operation(int64_t num_bytes);

// --- These describe collectives over `num_ranks` ranks of `group`. ---
Operation all_reduce_operation(const char* group, Tensor inout, int num_ranks);
// `whole` is the input of a reduce-scatter and the output of an all-gather.
Operation reduce_scatter_operation(const char* group, Tensor whole, int num_ranks);
Operation all_gather_operation(const char* group, Tensor whole, int num_ranks);
Operation broadcast_operation(const char* group, Tensor inout, int num_ranks);
// Its bytes are the larger of what this rank sends and what it receives.
Operation exchange_operation(const char* group, std::span<const Transfer> transfers, int num_ranks);

}  // namespace weft
