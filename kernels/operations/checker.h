// Checks of one operation's tensors: those that several operations need, and their words. A tensor
// "(N,C)" may have more dimensions (kernels/numbers/tensor.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "kernels/numbers/dropout.h"
#include "kernels/numbers/split_master.h"
#include "kernels/numbers/tensor.h"

namespace weft {

using Shape = std::initializer_list<int64_t>;

// Returns "(4,8)", and "bf16 (4,8)" of a tensor.
std::string text_of(Shape shape);
std::string text_of(const Tensor& tensor);

class Checker {
 public:
  explicit Checker(const char* operation) : operation_(operation) {}

  void require(bool holds, const std::string& what) const {
    if (!holds) throw std::invalid_argument(std::string(operation_) + ": " + what);
  }

  // Checks that the tensor is there and has the model's type.
  void model_type(const char* name, const Tensor& tensor) const {
    present(name, tensor);
    require(is_model_type(tensor.dtype()), std::string(name) + " is " + text_of(tensor) +
                                               "; the model's type is fp32, bf16 or fp16");
  }

  // Checks for exactly this type and shape.
  void tensor(const char* name, const Tensor& tensor, DType dtype, Shape shape) const {
    present(name, tensor);
    bool equal = tensor.dtype() == dtype && tensor.rank() == static_cast<int>(shape.size());
    int dim = 0;
    for (const int64_t size : shape) equal = equal && tensor.shape(dim++) == size;
    if (!equal) mismatch(name, tensor, dtype, shape);
  }

  // Checks for (N,C); the leading dimensions multiply to N.
  void rows(const char* name, const Tensor& tensor, DType dtype, int64_t N, int64_t C) const {
    present(name, tensor);
    const bool equal = tensor.dtype() == dtype && tensor.rank() >= 2 && num_columns(tensor) == C &&
                       num_rows(tensor) == N;
    if (!equal) mismatch(name, tensor, dtype, {N, C});
  }

  // Checks for n elements in any shape: one number per row may be (N) or (B,T).
  void elements(const char* name, const Tensor& tensor, DType dtype, int64_t n) const {
    present(name, tensor);
    if (tensor.dtype() != dtype || tensor.num_elements() != n) mismatch(name, tensor, dtype, {n});
  }

  // Checks a number on the device, which may be left out.
  void offset(const Tensor& tensor) const {
    if (tensor) elements("offset", tensor, DType::kInt32, 1);
  }

  void whole_blocks(const char* name, const Tensor& tensor) const {
    require(tensor.num_elements() % kOptimizerBlock == 0,
            std::string(name) + " is " + text_of(tensor) +
                "; the number of elements should be a multiple of " +
                std::to_string(kOptimizerBlock));
  }

  void rank(const char* name, const Tensor& tensor, int low, const char* wanted) const {
    present(name, tensor);
    require(tensor.rank() >= low,
            std::string(name) + " is " + text_of(tensor) + ", should be " + wanted);
  }

  void dropout(const Dropout& dropout) const {
    require(dropout.p >= 0.0F && dropout.p < 1.0F,
            "dropout probability is " + std::to_string(dropout.p) + ", should be in [0, 1)");
  }

 private:
  void present(const char* name, const Tensor& tensor) const {
    require(!tensor.empty() && tensor.num_elements() > 0,
            std::string(name) + " is empty, but the operation needs it");
  }
  [[noreturn]] void mismatch(const char* name, const Tensor& tensor, DType dtype,
                             Shape shape) const {
    throw std::invalid_argument(std::string(operation_) + ": " + name + " is " + text_of(tensor) +
                                ", should be " + name_of(dtype) + " " + text_of(shape));
  }

  const char* operation_;
};

}  // namespace weft
