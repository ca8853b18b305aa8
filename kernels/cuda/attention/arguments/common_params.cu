#include <limits>
#include <stdexcept>

#include "kernels/cuda/attention/arguments/common_params.h"

namespace weft::cuda::attention {

Params common_params(const Tensor& qkv, const Tensor& document_bounds, const Tensor& slopes,
                     const Heads& heads, float scale, const Dropout& dropout) {
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2);
  if (!(scale > 0)) throw std::invalid_argument("attention: the scale must be positive");
  // Grids are one-dimensional, and block indices have 32 bits.
  if (B * H * ((T + 31) / 32) > std::numeric_limits<int32_t>::max() || T > (1 << 24))
    throw std::invalid_argument("attention: B * H * T is too large; use a smaller micro-batch");
  Params params;
  params.qkv = qkv.data();
  params.B = static_cast<int>(B);
  params.T = static_cast<int>(T);
  params.H = static_cast<int>(H);
  params.head_size = static_cast<int>(qkv.shape(4));
  params.first_head = static_cast<int>(heads.first);
  params.total_heads = static_cast<int>(heads.total > 0 ? heads.total : H);
  params.scale = scale;
  params.dropout = dropout_args(dropout);
  params.document_bounds = document_bounds.as<const int2>();
  params.slopes = slopes.as<const float>();
  return params;
}

}  // namespace weft::cuda::attention
