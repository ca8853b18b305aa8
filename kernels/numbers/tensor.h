// A typed, shaped view of memory that it does not own.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace weft {

// Storage types. Arithmetic is always fp32 (sums of squares: fp64 on the CPU). The two of 8 bits
// are those of kernels/numbers/float8.h.
enum class DType : uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kInt32,
  kUInt8,
  kFloat8E4M3,
  kFloat8E5M2
};

constexpr int64_t size_bytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
    case DType::kUInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return 1;
  }
  return 0;
}

// Tells whether activations and weights may have this type.
constexpr bool is_model_type(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

constexpr bool is_float8(DType dtype) {
  return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
}

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
    case DType::kInt32:
      return "int32";
    case DType::kUInt8:
      return "uint8";
    case DType::kFloat8E4M3:
      return "e4m3";
    case DType::kFloat8E5M2:
      return "e5m2";
  }
  return "?";
}

// A tensor is contiguous, row-major and has at most 5 dimensions. Copying it copies the view. A
// default Tensor stands for "none".
class Tensor {
 public:
  static constexpr int kMaxRank = 5;

  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> shape)
      : data_(data), dtype_(dtype) {
    assert(shape.size() <= kMaxRank);
    for (const int64_t size : shape) shape_[rank_++] = size;
  }

  bool empty() const { return data_ == nullptr; }
  explicit operator bool() const { return data_ != nullptr; }
  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t shape(int dim) const {
    assert(dim < rank_);
    return shape_[dim];
  }
  int64_t num_elements() const {
    int64_t n = 1;
    for (int dim = 0; dim < rank_; ++dim) n *= shape_[dim];
    return rank_ == 0 ? 0 : n;
  }
  int64_t num_bytes() const { return num_elements() * size_bytes(dtype_); }
  // Returns a tensor of this type and shape in other memory.
  Tensor with_data(void* data) const {
    Tensor other = *this;
    other.data_ = data;
    return other;
  }
  bool operator==(const Tensor&) const = default;

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  int rank_ = 0;
  int64_t shape_[kMaxRank] = {};
};

// Many tensors are rows, "(N,C)": the last dimension is C, and the leading ones multiply to N.
inline int64_t num_columns(const Tensor& tensor) {
  return tensor.rank() == 0 ? 0 : tensor.shape(tensor.rank() - 1);
}
inline int64_t num_rows(const Tensor& tensor) {
  return tensor.rank() == 0 ? 0 : tensor.num_elements() / num_columns(tensor);
}

}  // namespace weft
