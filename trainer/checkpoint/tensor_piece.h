// A piece is the part of a global tensor that a rank or a file holds. Loading a checkpoint on
// another topology is for_each_common_run() and a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft {

// The slice of a tensor is [begin, end) of split_dim, or all of it where split_dim is -1. Of the
// slice's elements in row-major order the piece holds [first, first + count).
struct TensorPiece {
  std::string name;
  std::vector<int64_t> global_shape;
  int split_dim = -1;
  int64_t begin = 0, end = 0;
  int64_t first = 0, count = 0;
};

// Returns a shape for people: "(1000, 3)".
std::string shape_text(const std::vector<int64_t>& shape);

// Returns the number of elements of the slice that `piece` is a part of.
int64_t slice_elements(const TensorPiece& piece);

// Returns why the numbers of a piece contradict each other, or "".
std::string problem_of_piece(const TensorPiece& piece);

// Calls run(have_at, want_at, count) for each run of elements that both pieces hold and that is
// contiguous in both, in ascending order; positions count from the beginning of each piece. Both
// must be sound (problem_of_piece) and of one global tensor; the names are not compared. The first
// sizes of the global shapes may differ: the shorter tensor is then the beginning of the longer
// one.
void for_each_common_run(
    const TensorPiece& have, const TensorPiece& want,
    const std::function<void(int64_t have_at, int64_t want_at, int64_t count)>& run);

}  // namespace weft
