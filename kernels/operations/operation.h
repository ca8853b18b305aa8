// An operation is a struct of named fields (the other headers of this folder). Beside it stand a
// check of its arguments, a description of its work, and its implementation on each device.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/numbers/tensor.h"

namespace weft {

namespace cpu {
class Context;
}
namespace cuda {
struct Context;
}

// Describes an operation by the shapes of its arguments alone: its name and sizes, and its work.
//
// FLOPs are those of the matrix products, a multiplication and an addition counted as two;
// attention counts the causal half of the scores, forward with two products and backward with five
// [Dao 2023, arXiv:2307.08691]. Where batches have document bounds less is computed, which does
// not follow from shapes. Bytes are the least that must cross the memory bus: each tensor that is
// read and each that is written counts once, one that is added to twice. Scores that a GPU moves
// besides, where it has no flash attention for a head size, do not count: such an attention is far
// from the ceilings. A collective's bytes are those that cross a rank's link in a ring [nccl-tests,
// doc/PERFORMANCE.md, "bus bandwidth"].
//
// The texts are literals.
struct Operation {
  const char* name = "";
  const char* group = "";       // a collective has one ("data"), others have none
  const char* dimensions = "";  // the names of `sizes`, separated by spaces: "N O I"
  std::array<int64_t, 4> sizes = {};
  DType dtype = DType::kFloat32;  // the type with which it computes
  double flops = 0, bytes = 0;

  bool is_collective() const { return *group != '\0'; }
};

// Declares what belongs to an operation:
// - check() throws std::invalid_argument, which names the operation, the tensor, what it is and
//   what it should be. Backends call it first, so that a wrong call fails with the same words on
//   each.
// - operation_of() describes it.
// - cpu::run() and cuda::run() execute it, with arguments that are checked.
#define WEFT_DECLARE_OPERATION(Op)                \
  void check(const Op& op);                       \
  Operation operation_of(const Op& op);           \
  namespace cpu {                                 \
  void run(const Context& context, const Op& op); \
  }                                               \
  namespace cuda {                                \
  void run(const Context& context, const Op& op); \
  }

}  // namespace weft
