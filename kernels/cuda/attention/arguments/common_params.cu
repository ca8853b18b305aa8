#include <limits>
#include <stdexcept>

#include "kernels/cuda/attention/arguments/common_params.h"

namespace weft::cuda::attention {
namespace {

template <typename Op>
Params common_params(const Op& op, const Heads& heads, const Dropout& dropout) {
  const HeadVectors &q = op.qkv.q, &k = op.qkv.k;
  if (!(op.scale > 0)) throw std::invalid_argument("attention: the scale must be positive");
  // Grids are one-dimensional, and block indices have 32 bits.
  if (q.B * q.H * ((k.T + 31) / 32) > std::numeric_limits<int32_t>::max() || k.T > (1 << 24) ||
      q.H >= (1 << 15))
    throw std::invalid_argument("attention: B * H * T is too large; use a smaller micro-batch");
  Params params;
  params.q = q;
  params.k = k;
  params.v = op.qkv.v;
  params.B = static_cast<int>(q.B);
  params.T = static_cast<int>(q.T);
  params.H = static_cast<int>(q.H);
  params.num_keys = static_cast<int>(k.T);
  params.first_query = static_cast<int>(op.first_query);
  params.end_of_queries = static_cast<int>(op.first_query + q.T);
  params.queries_per_key = static_cast<int>(q.H / k.H);
  params.per_query = static_cast<uint32_t>(((int64_t{1} << 31) + params.queries_per_key - 1) /
                                           params.queries_per_key);
  params.q_rows = head_rows(q, params.queries_per_key);
  params.k_rows = head_rows(k, 1);
  params.head_size = static_cast<int>(q.D);
  params.first_head = static_cast<int>(heads.first);
  params.total_heads = static_cast<int>(heads.total > 0 ? heads.total : q.H);
  params.scale = op.scale;
  params.dropout = dropout_args(dropout);
  params.document_bounds = op.document_bounds.template as<const int2>();
  params.slopes = op.slopes.template as<const float>();
  params.lse = op.lse.template as<float>();
  params.dropout_mask = op.dropout_mask.template as<uint32_t>();
  return params;
}

}  // namespace

Params params_of(const AttentionForward& op) {
  Params params = common_params(op, op.heads, op.dropout);
  params.out = op.out.data();
  return params;
}

Params params_of(const AttentionBackward& op) {
  Params params = common_params(op, Heads{}, Dropout{.p = op.dropout_p});
  params.out_in = op.out.data();
  params.dout = op.dout.data();
  params.dq = op.dqkv.q;
  params.dq_rows = head_rows(params.dq, params.queries_per_key);
  params.dk = op.dqkv.k;
  params.dv = op.dqkv.v;
  params.dk_head_stride = params.dk.group_rows * params.dk.row_stride;
  return params;
}

}  // namespace weft::cuda::attention
