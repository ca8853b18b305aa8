// The shared memory that a block of this GPU may have, and leave for a kernel to use it.
//
// Both are called at every launch and call the driver once for each kernel: its answers do not
// change, and a process uses one GPU.
#pragma once

#include <cstdint>

namespace weft::cuda {

// Returns whether a block may have `num_bytes` of dynamic shared memory beside the kernel's static
// one. WEFT_SHARED_MEMORY_KIB lowers what a block of this GPU may have, which lets tests run what
// kernels choose on smaller GPUs.
bool fits_shared_memory(const void* kernel, int64_t num_bytes);

// Lets a kernel use `num_bytes` of dynamic shared memory. Throws std::invalid_argument if a block
// of this GPU has less.
void allow_shared_memory(const void* kernel, int num_bytes, const char* name);

}  // namespace weft::cuda
