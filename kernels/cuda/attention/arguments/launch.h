// Launches of attention's kernels: what a block may hold, and errors as exceptions. Most kernels
// are compiled without device/device.cuh, whose names of device functions are not theirs.
#pragma once

namespace weft::cuda::attention {

// Checks the launch of the kernel of that name (device/check.h).
void check_launch(const char* kernel);
// These two do what device/shared_memory.h says.
void allow_shared_memory(const void* kernel, int num_bytes, const char* name);
bool fits_shared_memory(const void* kernel, int num_bytes);
// Returns whether attention of 16 bits runs on Hopper's kernels: where they can run
// (hopper/hopper_code.h), unless the environment has WEFT_ATTENTION=mma_sync, by which tests run
// the kernels of other GPUs there. Throws std::invalid_argument for any other value of it.
bool uses_hopper_kernels();
// Returns num_multiprocessors() of device/device.cuh.
int multiprocessors();

}  // namespace weft::cuda::attention
