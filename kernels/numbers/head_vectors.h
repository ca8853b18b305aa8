// A view of the vectors of heads inside a larger tensor.
#pragma once

#include <cstdint>

#include "kernels/numbers/philox.h"
#include "kernels/numbers/tensor.h"

namespace weft {

// One vector of D numbers for each sample, token and head. A token has rows of D numbers side by
// side, and the heads are some of its rows: group after group of `group_heads` neighbours, of which
// each begins `group_rows` rows after the one before. Strides count elements. In packed queries,
// keys and values of two groups with two queries each
//
//   row        0    1    2    3    4    5    6    7
//   holds     q0   q1   k0   v0   q2   q3   k1   v1
//
// queries have data at row 0 and group_heads = 2, keys have data at row 2 and group_heads = 1, and
// group_rows is 4 for both. A default one stands for "none".
struct HeadVectors {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t B = 0, T = 0, H = 0, D = 0;
  int64_t sample_stride = 0, token_stride = 0, row_stride = 0;
  int group_heads = 1, group_rows = 1;

  WEFT_HOST_DEVICE int row(int head) const {
    return head / group_heads * group_rows + head % group_heads;
  }
  // Returns the first element of token 0's vector; those of other tokens are token_stride apart.
  WEFT_HOST_DEVICE int64_t first_element(int64_t b, int64_t head) const {
    return b * sample_stride + row(static_cast<int>(head)) * row_stride;
  }
  WEFT_HOST_DEVICE int64_t element(int64_t b, int64_t t, int64_t head) const {
    return first_element(b, head) + t * token_stride;
  }
  int64_t num_bytes() const { return B * T * H * D * size_bytes(dtype); }
  bool operator==(const HeadVectors&) const = default;
};

// Returns the vectors of a tensor (B,T,H,D).
inline HeadVectors head_vectors(void* data, DType dtype, int64_t B, int64_t T, int64_t H,
                                int64_t D) {
  return {data, dtype, B, T, H, D, T * H * D, H * D, D};
}
inline HeadVectors head_vectors(const Tensor& tensor) {
  return head_vectors(tensor.data(), tensor.dtype(), tensor.shape(0), tensor.shape(1),
                      tensor.shape(2), tensor.shape(3));
}

}  // namespace weft
