#include "kernels/operations/checker.h"

namespace weft {

namespace {

void append_size(std::string& text, int64_t size) {
  if (text.back() != '(') text += ',';
  text += std::to_string(size);
}

}  // namespace

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
