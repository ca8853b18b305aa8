// Finds out whether Hopper's kernels can run.
#pragma once

namespace weft::cuda {

// Returns whether the current device has compute capability 9.0. Throws as CUDA_CHECK does.
bool is_hopper();
// Returns whether the current device is_hopper() and runs this build's code for sm_90a, in which
// alone the bodies of Hopper's kernels exist. The first call's answer holds for the process.
bool has_hopper_code();

}  // namespace weft::cuda
