#include "kernels/checks/checker.h"

namespace weft {

namespace {

void append_size(std::string& text, int64_t size) {
  if (text.back() != '(') text += ',';
  text += std::to_string(size);
}

}  // namespace

const char* name_of(DType dtype) {
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

std::string text_of(Shape shape) {
  std::string text = "(";
  for (const int64_t size : shape) append_size(text, size);
  return text + ")";
}

std::string text_of(const Tensor& tensor) {
  std::string text = std::string(name_of(tensor.dtype())) + " (";
  for (int dim = 0; dim < tensor.rank(); ++dim) append_size(text, tensor.shape(dim));
  return text + ")";
}

}  // namespace weft
