// Finds out whether two algorithms compute the same product, to the bit.
//
// The operands are whole numbers a, b of [-R, R] with k R^2 <= 2^22. Every sum of some of a
// result's products then is a whole number of at most 2^22, which fp32 holds exactly, so no
// order of additions rounds: not split-K's, not that of matrix units, which align the numbers that
// they add to the largest one (two binary digits are left for that). The one rounding is the last,
// to the output's type, and it is the same for all. So the bound for the difference of two right
// results is zero, whatever their algorithms. A product that is left out or added twice, a sum in a
// narrower type and a row that is not written are all found: results are about R^2 sqrt(k) / 3,
// which is far more digits than 16 bits have.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <functional>

#include "kernels/cuda/gemm/gemm_problem.h"

namespace weft::cuda {

// The R above; smaller where an fp16 result would become infinite.
int exact_range(int64_t k, DType output);

// Returns whether results are whole numbers: not in fp8, whose sums have fewer digits, and not
// behind an epilogue that approximates a function; and whether it is one product, not a batch.
bool has_exact_sums(const GemmProblem& problem);

// The product, and the memory and streams that both algorithms use.
struct ExactCheck {
  cudaStream_t stream = nullptr;
  GemmProblem problem;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  // Enqueues work that keeps the memory and some multiprocessors busy on another stream.
  std::function<void(cudaStream_t)> disturb;
};
// Enqueues one product on the check's stream.
using GemmRun = std::function<cublasStatus_t(const GemmOperands&)>;

// Runs both and returns whether `candidate` gave the bits of `reference` every time: with operands
// at 256-byte and at 16-byte boundaries, alone and beside work of another stream, into memory that
// holds NaN, the workspace too, with nothing written around the result; and whether `candidate`, on
// random operands, has the same bits each of three times. It takes memory for the operands and for
// two results, and throws DeviceOutOfMemory where there is too little.
bool agree(const ExactCheck& check, const GemmRun& reference, const GemmRun& candidate);

}  // namespace weft::cuda
