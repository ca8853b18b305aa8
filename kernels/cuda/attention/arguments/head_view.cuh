// Where the tensors of one head lie.
#pragma once

#include "kernels/cuda/attention/arguments/params.h"

namespace weft::cuda::attention {

// The place of a (batch, head) in the tensors.
template <class Shape>
struct HeadView {
  using Element = typename Shape::Element;
  int size;  // of the head
  int64_t token_stride, out_stride;
  const Element *q, *dout;
  Element* dq;
  const float *lse2, *delta;

  __device__ HeadView(const Params& p, int bh) {
    size = head_size_of<Shape>(p);
    const int64_t b = bh / p.H, h = bh % p.H;
    token_stride = static_cast<int64_t>(3) * p.H * size;
    out_stride = static_cast<int64_t>(p.H) * size;
    const int64_t offset = b * p.T * token_stride + h * 3 * size;
    q = static_cast<const Element*>(p.qkv) + offset;
    dq = static_cast<Element*>(p.dqkv) + offset;
    dout = static_cast<const Element*>(p.dout) + b * p.T * out_stride + h * size;
    lse2 = p.lse2 + bh * padded_length(p.T);
    delta = p.delta + bh * padded_length(p.T);
  }
};

}  // namespace weft::cuda::attention
