// The arguments of the residual norm's backward kernels, and their launch.
#pragma once

#include "kernels/cuda/residual_norm/residual_norm.cuh"
#include "kernels/residual_norm_layout.h"

namespace weft::cuda {

struct BackwardArgs {
  void *dresidual, *dbranch;
  float* partials;  // (grid, num_sums, C): dweight, dbias and dbranch_bias of each block
  const void *dnormed, *dresidual_in, *inp;
  const float *mean, *rstd;
  const void* weight;
  int N, C;
  float weight_offset;
  DropoutMask mask;
};

// Launches the kernel for a stream of R in a model of X, and returns its number of blocks.
template <typename R, typename X>
int launch_backward(cudaStream_t stream, const BackwardArgs& args, bool rms, bool branch_bias);

}  // namespace weft::cuda
