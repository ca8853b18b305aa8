// The host's part of Hopper's kernels: tensor maps, and the test whether the kernels can run.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace weft::cuda::attention {

// Looks the function up once, at run time, so that nothing links libcuda. Throws std::invalid_argument where the
// driver is too old to have it.
PFN_cuTensorMapEncodeTiled_v12000 encode_tiled();

// Returns a tensor map of a (B, T, num_rows, head_size) tensor of 16-bit numbers, with boxes of 64 tokens
// of one row and one panel of a tile of D columns. Columns beyond the head are copied as zeros. Throws
// DeviceLost.
CUtensorMap tensor_map(const void* data, int D, int head_size, int num_rows, int T, int B);

// Returns whether the current device runs sm_90a code and `kernel` was compiled for it. (The kernel
// has static shared memory in that code only.) WEFT_ATTENTION=mma_sync says no, which lets tests run
// the kernels of other GPUs.
bool runs_on_hopper(const void* kernel);

}  // namespace weft::cuda::attention
