// Operations know their work: it follows from the shapes of their arguments alone.
//
// FLOPs are those of the matrix products, a multiplication and an addition counted as two; attention
// counts the causal half of the scores, forward with two products and backward with five [Dao 2023,
// arXiv:2307.08691]. Where batches have document bounds less is computed, which shapes do not tell.
// Bytes are the least that must cross the memory bus: each tensor that is read and each that is
// written counts once, one that is added to twice. Scores that a GPU moves besides, where it has no
// flash attention for a head size, do not count: such an attention is far from the ceilings. A
// collective's bytes are those that cross a rank's link in a ring [nccl-tests, doc/PERFORMANCE.md,
// "bus bandwidth"].
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/backend.h"

namespace weft {

// The texts are literals.
struct Operation {
  const char* name = "";        // that of the function of Backend or Communicator
  const char* group = "";       // a collective has one ("data"), others have none
  const char* dimensions = "";  // the names of `sizes`, separated by spaces: "N O I"
  std::array<int64_t, 4> sizes = {};
  DType dtype = DType::kFloat32;  // the type with which it computes
  double flops = 0, bytes = 0;

  bool is_collective() const { return *group != '\0'; }
};

// Returns whether calls of both belong to one line of a profile: all but their work is equal, which
// may differ by a bias or by sums that are added to.
bool is_same_kind(const Operation& a, const Operation& b);
// Returns "linear_forward N=65536 O=2304 I=768 bf16".
std::string to_string(const Operation& operation);

// --- These functions describe the operations of a backend by the arguments that decide their work. ---
Operation zero_operation(Tensor tensor);
Operation cast_operation(Tensor dst, Tensor src);
Operation copy_operation(int64_t num_bytes);
Operation embedding_forward_operation(Tensor out, Tensor tokens);
Operation embedding_backward_operation(Tensor dword, Tensor dout, Tensor tokens);
Operation residual_norm_forward_operation(const ResidualNorm& args);
Operation residual_norm_backward_operation(const ResidualNormBackward& args);
Operation linear_forward_operation(Tensor out, Tensor inp, Tensor weight, Tensor bias);
Operation linear_backward_input_operation(Tensor dinp, Tensor dout, Tensor weight);
Operation linear_gelu_forward_operation(Tensor out, Tensor pre, Tensor inp, Tensor weight,
                                        Tensor bias);
Operation linear_gelu_backward_input_operation(Tensor dpre, Tensor dbias, Tensor dout,
                                               Tensor weight, Tensor pre, bool accumulate);
Operation linear_backward_weight_operation(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                           bool accumulate);
Operation quantize_operation(const Quantize& args);
Operation transpose_fp8_operation(Tensor transposed, Tensor rows);
Operation fp8_product_operation(const Fp8Product& args);
Operation update_fp8_scaling_operation(const Fp8ScalingUpdate& args);
Operation squared_error_operation(Tensor value, Tensor reference);
// `name` tells forward and backward apart.
Operation activation_operation(const char* name, Tensor narrow, Tensor wide, Tensor also_wide);
Operation rotate_operation(const Rotary& args);
Operation groups_operation(const char* name, Tensor grouped, Tensor expanded);
Operation attention_forward_operation(const Attention& args);
Operation attention_backward_operation(const AttentionBackward& args);
// `name` tells the three operations of the loss apart; `statistics` is empty for cross_entropy.
Operation cross_entropy_operation(const char* name, Tensor logits, Tensor statistics,
                                  bool writes_gradient);
// The operation reads `inp` and leaves a few sums.
Operation sum_operation(const char* name, Tensor inp);
Operation clip_coefficient_operation();
Operation adamw_operation(const AdamW& args);
// Masters are split into parameters and what these lack of them, or joined.
Operation masters_operation(const char* name, Tensor param, Tensor remainder, Tensor master);

// --- These describe collectives over `num_ranks` ranks of `group`. ---
Operation all_reduce_operation(const char* group, Tensor inout, int num_ranks);
// `whole` is the input of a reduce-scatter and the output of an all-gather.
Operation reduce_scatter_operation(const char* group, Tensor whole, int num_ranks);
Operation all_gather_operation(const char* group, Tensor whole, int num_ranks);
Operation broadcast_operation(const char* group, Tensor inout, int num_ranks);
// `num_bytes` is the larger of what this rank sends and what it receives.
Operation exchange_operation(const char* group, int64_t num_bytes, int num_ranks);

}  // namespace weft
