// Where the tensors of one head lie.
#pragma once

#include "kernels/cuda/attention/arguments/params.h"

namespace weft::cuda::attention {

// The vectors of token 0 of a head, and what is between tokens.
template <typename Element>
struct TokenRows {
  Element* data;
  int64_t stride;

  __device__ TokenRows(const HeadVectors& vectors, int b, int head)
      : data(static_cast<Element*>(vectors.data) + vectors.first_element(b, head)),
        stride(vectors.token_stride) {}
  __device__ Element* at(int64_t token) const { return data + token * stride; }
};

// The place of a (batch, head) in backward's tensors.
template <class Shape>
struct HeadView {
  using Element = typename Shape::Element;
  int size;  // D of the tensors
  int b, h;
  int64_t out_stride;
  const Element* dout;
  const float *lse2, *delta;

  __device__ HeadView(const Params& p, int bh) {
    size = head_size_of<Shape>(p);
    b = bh / p.H;
    h = bh % p.H;
    out_stride = static_cast<int64_t>(p.H) * size;
    dout = static_cast<const Element*>(p.dout) + static_cast<int64_t>(b) * p.T * out_stride +
           static_cast<int64_t>(h) * size;
    lse2 = p.lse2 + bh * padded_length(p.T);
    delta = p.delta + bh * padded_length(p.T);
  }
  __device__ TokenRows<Element> rows(const HeadVectors& vectors) const { return {vectors, b, h}; }
  __device__ TokenRows<Element> key_rows(const Params& p, const HeadVectors& vectors) const {
    return {vectors, b, h / p.queries_per_key};
  }
};

}  // namespace weft::cuda::attention
