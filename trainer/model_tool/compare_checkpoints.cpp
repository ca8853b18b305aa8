#include "trainer/model_tool/compare_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace weft {

namespace {

struct Sums {
  int64_t num_different = 0;
  double greatest = 0, difference_squares = 0, first_squares = 0;
};

Sums compare_tensor(const std::string& name, const std::vector<int64_t>& shape,
                    CheckpointReader& first, CheckpointReader& second) {
  constexpr int64_t kChunkElements = 1 << 22;
  TensorPiece piece{.name = name, .global_shape = shape};
  const int64_t num_elements = slice_elements(piece);
  std::vector<float> a(static_cast<size_t>(std::min(kChunkElements, num_elements))), b(a.size());
  Sums sums;
  for (piece.first = 0; piece.first < num_elements; piece.first += kChunkElements) {
    piece.count = std::min(kChunkElements, num_elements - piece.first);
    first.read_as_stored(piece, DType::kFloat32, reinterpret_cast<char*>(a.data()));
    second.read_as_stored(piece, DType::kFloat32, reinterpret_cast<char*>(b.data()));
    for (size_t i = 0; i < static_cast<size_t>(piece.count); ++i) {
      const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      if (std::isfinite(x)) sums.first_squares += x * x;
      // Two infinities of one sign are equal, and so are two NaNs.
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      ++sums.num_different;
      const double difference = std::isnan(x - y) ? INFINITY : std::abs(x - y);
      sums.greatest = std::max(sums.greatest, difference);
      sums.difference_squares += difference * difference;
    }
  }
  return sums;
}

}  // namespace

CheckpointDifferences compare_checkpoints(CheckpointReader& first, CheckpointReader& second) {
  CheckpointDifferences differences;
  const std::vector<std::string> of_first = first.names(), of_second = second.names();
  std::set<std::string> all(of_first.begin(), of_first.end());
  all.insert(of_second.begin(), of_second.end());
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  for (const std::string& name : all) {
    if (!has(of_first, name) || !has(of_second, name)) {
      differences.lines.push_back(
          fmt::format("{}: only in the {} one", name, has(of_first, name) ? "first" : "second"));
      continue;
    }
    if (first.shape_of(name) != second.shape_of(name)) {
      differences.lines.push_back(name + ": the shapes differ, " +
                                  shape_text(first.shape_of(name)) + " and " +
                                  shape_text(second.shape_of(name)));
      continue;
    }
    const Sums sums = compare_tensor(name, first.shape_of(name), first, second);
    if (sums.num_different == 0) {
      ++differences.num_equal;
      continue;
    }
    differences.lines.push_back(fmt::format(
        "{}: {} elements differ, by {:.3e} at most; relative norm {:.3e}", name, sums.num_different,
        sums.greatest, std::sqrt(sums.difference_squares / std::max(sums.first_squares, 1e-300))));
  }
  return differences;
}

}  // namespace weft
