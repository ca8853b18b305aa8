// Pieces of tensors are cut and joined right, against a search through all elements.
#include "trainer/checkpoint/tensor_piece.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace weft {
namespace {

// Returns the global element numbers of a piece in its order, by walking through all coordinates.
std::vector<int64_t> elements_of(const TensorPiece& piece) {
  int64_t num_global = 1;
  for (const int64_t size : piece.global_shape) num_global *= size;
  std::vector<int64_t> slice;
  for (int64_t element = 0; element < num_global; ++element) {
    int64_t rest = element, coordinate = 0;
    for (auto dim = static_cast<int>(piece.global_shape.size()) - 1; dim >= 0; --dim) {
      const int64_t size = piece.global_shape[static_cast<size_t>(dim)];
      if (dim == piece.split_dim) coordinate = rest % size;
      rest /= size;
    }
    if (piece.split_dim < 0 || (coordinate >= piece.begin && coordinate < piece.end))
      slice.push_back(element);
  }
  return {slice.begin() + piece.first, slice.begin() + piece.first + piece.count};
}

TensorPiece random_piece(const std::vector<int64_t>& shape, std::mt19937& random) {
  const auto below = [&](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
  };
  TensorPiece piece{.name = "t", .global_shape = shape};
  piece.split_dim = static_cast<int>(below(static_cast<int64_t>(shape.size()) + 1)) - 1;
  if (piece.split_dim >= 0) {
    const int64_t size = shape[static_cast<size_t>(piece.split_dim)];
    piece.begin = below(size + 1);
    piece.end = piece.begin + below(size - piece.begin + 1);
  }
  const int64_t in_slice = slice_elements(piece);
  piece.first = below(in_slice + 1);
  piece.count = below(in_slice - piece.first + 1);
  return piece;
}

TEST(TensorPiece, CommonRunsAreThoseOfASearchThroughAllElements) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::vector<int64_t> shape(1 + random() % 3);
    for (int64_t& size : shape) size = 1 + static_cast<int64_t>(random() % 6);
    const TensorPiece have = random_piece(shape, random), want = random_piece(shape, random);
    ASSERT_EQ(problem_of_piece(have), "");
    const std::vector<int64_t> a = elements_of(have), b = elements_of(want);
    std::map<int64_t, int64_t> expected, found;  // place in `want` -> place in `have`
    for (size_t i = 0; i < a.size(); ++i) {
      for (size_t j = 0; j < b.size(); ++j) {
        if (a[i] == b[j]) expected[static_cast<int64_t>(j)] = static_cast<int64_t>(i);
      }
    }
    int64_t last_want = -1, num_runs = 0;
    for_each_common_run(have, want, [&](int64_t have_at, int64_t want_at, int64_t count) {
      ASSERT_GT(count, 0);
      ASSERT_GT(want_at, last_want) << "ascending";
      last_want = want_at + count - 1;
      ++num_runs;
      for (int64_t i = 0; i < count; ++i) found[want_at + i] = have_at + i;
    });
    ASSERT_EQ(found, expected) << "seed " << seed << ", round " << round;
  }
}

TEST(TensorPiece, WholeTensorsAreOneRun) {
  const TensorPiece whole{.name = "t", .global_shape = {4, 6}, .count = 24};
  int num_runs = 0;
  for_each_common_run(whole, whole, [&](int64_t have_at, int64_t want_at, int64_t count) {
    EXPECT_EQ(have_at, 0);
    EXPECT_EQ(want_at, 0);
    EXPECT_EQ(count, 24);
    ++num_runs;
  });
  EXPECT_EQ(num_runs, 1);
}

TEST(TensorPiece, ContradictionsAreNamed) {
  const TensorPiece sound{
      .name = "t", .global_shape = {4, 6}, .split_dim = 1, .begin = 2, .end = 5, .count = 12};
  EXPECT_EQ(problem_of_piece(sound), "");
  const auto problem_with = [&](auto change) {
    TensorPiece piece = sound;
    change(piece);
    return problem_of_piece(piece);
  };
  EXPECT_EQ(problem_with([](TensorPiece& p) { p.split_dim = 2; }), "bad split_dim");
  EXPECT_EQ(problem_with([](TensorPiece& p) { p.end = 7; }), "bad slice");
  EXPECT_EQ(problem_with([](TensorPiece& p) { p.begin = 6; }), "bad slice");
  EXPECT_EQ(problem_with([](TensorPiece& p) { p.first = 1; }), "bad range of elements");
  EXPECT_EQ(problem_with([](TensorPiece& p) { p.count = -1; }), "bad range of elements");
  EXPECT_EQ(problem_with([](TensorPiece& p) {
              p.global_shape = {int64_t{1} << 40, 1 << 30};
            }),
            "bad global_shape");
  EXPECT_EQ(problem_with([](TensorPiece& p) {
              p.global_shape = {int64_t{1} << 31, int64_t{1} << 31};
            }),
            "bad global_shape")
      << "its bytes do not fit into 64 bits";
}

}  // namespace
}  // namespace weft
