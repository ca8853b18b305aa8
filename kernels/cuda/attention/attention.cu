// Attention's entry points: they check sizes, lay out the workspace and choose the kernels.
#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/cuda/attention/arguments/common_params.h"
#include "kernels/cuda/attention/arguments/dropout.cuh"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/backward_workspace/bias_sums.h"
#include "kernels/cuda/attention/backward_workspace/row_values.h"
#include "kernels/cuda/attention/instances/instances.h"
#include "kernels/flash_attention.h"

namespace weft::cuda {
namespace attention {
namespace {

// Calls function(Element{}) for a 16-bit type.
template <typename Function>
void choose_element(DType x, Function function) {
  if (x == DType::kFloat16) return function(__half{});
  function(__nv_bfloat16{});
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::invalid_argument("attention: " + what);
}

template <typename Op>
Params checked_params(const Op& op) {
  const HeadVectors& q = op.qkv.q;
  require(has_flash_attention(q.D, q.dtype),
          "head size " + std::to_string(q.D) + " in " + name_of(q.dtype) + " has no flash kernels");
  Params params = params_of(op);
  params.heads_per_group = heads_per_group(op.qkv.k.T, q.D, q.B, q.H);
  return params;
}

}  // namespace

}  // namespace attention

void attention_forward(cudaStream_t stream, const AttentionForward& args, uint32_t* tile_counter) {
  attention::Params params = attention::checked_params(args);
  params.tile_counter = tile_counter;
  const bool drop = args.dropout.p > 0;
  if (drop) attention::draw_kept(stream, params);
  attention::choose_element(args.qkv.q.dtype, [&](auto element) {
    attention::choose_tile(params.head_size, [&](auto columns, auto padded) {
      attention::forward_16bit<decltype(element), columns(), padded()>(stream, params, drop);
    });
  });
}

namespace {

attention::Params backward_params(const AttentionBackward& args, void* workspace) {
  attention::Params params = attention::checked_params(args);
  params.lse2 = static_cast<float*>(workspace);
  params.delta = params.lse2 + padded_length(params.T) * static_cast<int64_t>(params.B) * params.H;
  const SemaphoreLayout semaphores(params.B, params.T, params.H, params.head_size);
  char* const counters =
      static_cast<char*>(workspace) + row_values_bytes(params.B, params.T, params.H);
  params.semaphores = reinterpret_cast<int*>(counters);
  params.num_semaphores = static_cast<int>(semaphores.num_counters);
  params.dq_sums = reinterpret_cast<float*>(counters + semaphores.counter_bytes);
  params.num_slots = semaphores.num_slots;
  params.heads_together = semaphores.heads_together;
  if (args.dqkv_bias && semaphores.columns > 0) {
    params.bias = attention::bias_sums(params, semaphores.columns, args.dropout_p > 0,
                                       params.dq_sums + semaphores.sum_bytes / 4);
  }
  return params;
}

// Returns whether the kernels left the partial sums of params.bias.
bool run_backward(cudaStream_t stream, const attention::Params& params, DType x, bool drop) {
  bool has_sums = false;
  attention::choose_element(x, [&](auto element) {
    attention::choose_tile(params.head_size, [&](auto columns, auto padded) {
      has_sums =
          attention::backward_16bit<decltype(element), columns(), padded()>(stream, params, drop);
    });
  });
  return has_sums;
}

}  // namespace

void attention_backward(cudaStream_t stream, const AttentionBackward& args, void* workspace) {
  const attention::Params params = backward_params(args, workspace);
  const bool has_sums = run_backward(stream, params, args.qkv.q.dtype, args.dropout_p > 0);
  if (!args.dqkv_bias) return;
  if (has_sums) {
    attention::add_bias_sums(stream, args.dqkv_bias, params, args.accumulate);
  } else {
    sum_dqkv(stream, args, workspace);
  }
}

}  // namespace weft::cuda
