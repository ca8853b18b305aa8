// The list of all operations: WEFT_OPERATIONS(X) is X(Op) for each.
#pragma once

#include "kernels/operations/activation.h"
#include "kernels/operations/attention.h"
#include "kernels/operations/embedding.h"
#include "kernels/operations/fp8.h"
#include "kernels/operations/generation.h"
#include "kernels/operations/linear.h"
#include "kernels/operations/loss.h"
#include "kernels/operations/memory.h"
#include "kernels/operations/muon.h"
#include "kernels/operations/optimizer.h"
#include "kernels/operations/qkv.h"
#include "kernels/operations/reduction.h"
#include "kernels/operations/residual_norm.h"

#define WEFT_OPERATIONS(X)         \
  WEFT_MEMORY_OPERATIONS(X)        \
  WEFT_EMBEDDING_OPERATIONS(X)     \
  WEFT_RESIDUAL_NORM_OPERATIONS(X) \
  WEFT_LINEAR_OPERATIONS(X)        \
  WEFT_ACTIVATION_OPERATIONS(X)    \
  WEFT_FP8_OPERATIONS(X)           \
  WEFT_QKV_OPERATIONS(X)           \
  WEFT_ATTENTION_OPERATIONS(X)     \
  WEFT_LOSS_OPERATIONS(X)          \
  WEFT_REDUCTION_OPERATIONS(X)     \
  WEFT_OPTIMIZER_OPERATIONS(X)     \
  WEFT_MUON_OPERATIONS(X)          \
  WEFT_GENERATION_OPERATIONS(X)
