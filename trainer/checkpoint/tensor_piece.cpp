#include "trainer/checkpoint/tensor_piece.h"

#include <algorithm>

namespace weft {

namespace {

// Walks over the intervals of the row-major global tensor that a piece holds, in ascending order.
class Intervals {
 public:
  explicit Intervals(const TensorPiece& piece) : count_(piece.count) {
    const std::vector<int64_t>& shape = piece.global_shape;
    if (piece.split_dim <= 0) {
      // Rows of the first dimension follow each other: the slice is one interval.
      for (size_t dim = 1; dim < shape.size(); ++dim) inner_ *= shape[dim];
      row_stride_ = row_length_ = slice_elements(piece);
      row_begin_ = piece.split_dim == 0 ? piece.begin * inner_ : 0;
    } else {
      const auto split = static_cast<size_t>(piece.split_dim);
      for (size_t dim = split + 1; dim < shape.size(); ++dim) inner_ *= shape[dim];
      row_length_ = (piece.end - piece.begin) * inner_;
      row_stride_ = shape[split] * inner_;
      row_begin_ = piece.begin * inner_;
    }
    if (count_ > 0) place(piece.first);
  }

  bool is_at_end() const { return at_ >= count_; }
  int64_t begin() const { return begin_; }  // in the global tensor
  int64_t end() const { return begin_ + length_; }
  int64_t at() const { return at_; }  // the interval's first element in the piece
  void next() {
    at_ += length_;
    if (!is_at_end()) place(in_slice_ + length_);
  }

 private:
  void place(int64_t in_slice) {
    in_slice_ = in_slice;
    const int64_t row = in_slice / row_length_, within = in_slice % row_length_;
    begin_ = row * row_stride_ + row_begin_ + within;
    length_ = std::min(row_length_ - within, count_ - at_);
  }

  int64_t count_, inner_ = 1;
  int64_t row_length_ = 1, row_stride_ = 1, row_begin_ = 0;  // of an interval, in elements
  int64_t at_ = 0, in_slice_ = 0, begin_ = 0, length_ = 0;
};

}  // namespace

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

int64_t slice_elements(const TensorPiece& piece) {
  int64_t elements = 1;
  for (size_t dim = 0; dim < piece.global_shape.size(); ++dim) {
    const bool is_split = static_cast<int>(dim) == piece.split_dim;
    elements *= is_split ? piece.end - piece.begin : piece.global_shape[dim];
  }
  return elements;
}

std::string problem_of_piece(const TensorPiece& piece) {
  // With this limit, sizes in bytes do not overflow either.
  constexpr int64_t kMaxElements = int64_t{1} << 56;
  int64_t elements = 1;
  for (const int64_t size : piece.global_shape) {
    if (size < 1 || __builtin_mul_overflow(elements, size, &elements) || elements > kMaxElements)
      return "bad global_shape";
  }
  const auto rank = static_cast<int>(piece.global_shape.size());
  if (piece.split_dim < -1 || piece.split_dim >= rank) return "bad split_dim";
  if (piece.split_dim >= 0) {
    const int64_t size = piece.global_shape[static_cast<size_t>(piece.split_dim)];
    if (piece.begin < 0 || piece.begin > piece.end || piece.end > size) return "bad slice";
  }
  const int64_t in_slice = slice_elements(piece);
  const bool fits = piece.first >= 0 && piece.count >= 0 && piece.first <= in_slice - piece.count;
  return fits ? "" : "bad range of elements";
}

void for_each_common_run(const TensorPiece& have, const TensorPiece& want,
                         const std::function<void(int64_t, int64_t, int64_t)>& run) {
  Intervals a(have), b(want);
  while (!a.is_at_end() && !b.is_at_end()) {
    const int64_t begin = std::max(a.begin(), b.begin()), end = std::min(a.end(), b.end());
    if (begin < end) run(a.at() + begin - a.begin(), b.at() + begin - b.begin(), end - begin);
    if (a.end() < b.end()) {
      a.next();
    } else {
      b.next();
    }
  }
}

}  // namespace weft
