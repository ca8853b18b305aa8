// Rotary positions: B samples of T tokens, G groups of R queries.
#include <cmath>

#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, G, R, D;
  int64_t grouped() const { return B * T * G * (R + 2) * D; }
};

struct Rotation {
  int64_t num_pairs = 0;
  bool interleaved = false, inverse = false;
  Documents documents = {};
  int64_t first_position = 0;
  int64_t offset = 0;  // the part of first_position that is on the device
};

std::string name_of(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_G" + std::to_string(s.G) + "_R" + std::to_string(s.R) + "_D" +
         std::to_string(s.D);
}

size_t index(int64_t i) { return static_cast<size_t>(i); }

// (S,2,P) with a position more than there are tokens.
Values angles_of(const Shape& s, const Rotation& r) {
  Values angles;
  for (int64_t position = 0; position <= r.first_position + s.T; ++position) {
    for (const bool is_sine : {false, true}) {
      for (int64_t pair = 0; pair < r.num_pairs; ++pair) {
        const double angle = static_cast<double>(position) * std::pow(0.7, pair);
        angles.push_back(is_sine ? std::sin(angle) : std::cos(angle));
      }
    }
  }
  return rounded(angles, DType::kFloat32);
}

Values documents_of(const Shape& s, const Rotation& r) {
  return document_bounds(r.documents, s.B, r.first_position + s.T);
}

Values rotated(Values qkv, const Shape& s, const Rotation& r) {
  const Values angles = angles_of(s, r), bounds = documents_of(s, r);
  const int64_t num_tokens = r.first_position + s.T;
  for (int64_t head = 0; head < s.grouped() / s.D; ++head) {
    if (head % (s.R + 2) == s.R + 1) continue;
    const int64_t row = head / (s.G * (s.R + 2));
    const int64_t token = r.first_position + row % s.T;
    const int64_t in_bounds = 2 * (row / s.T * num_tokens + token);
    const int64_t begin = bounds.empty() ? 0 : static_cast<int64_t>(bounds[index(in_bounds)]);
    for (int64_t pair = 0; pair < r.num_pairs; ++pair) {
      const int64_t at = (token - begin) * 2 * r.num_pairs + pair;
      const double cosine = angles[index(at)];
      const double sine = angles[index(at + r.num_pairs)] * (r.inverse ? -1 : 1);
      double& a = qkv[index(head * s.D + (r.interleaved ? 2 * pair : pair))];
      double& b = qkv[index(head * s.D + (r.interleaved ? 2 * pair + 1 : r.num_pairs + pair))];
      const double old_a = a;
      a = old_a * cosine - b * sine;
      b = b * cosine + old_a * sine;
    }
  }
  return qkv;
}

OpCase rotate(DType x, Shape s, Rotation r) {
  const std::string name = name_of("rotate", x, s) + "_P" + std::to_string(r.num_pairs) +
                           r.documents.name() + (r.interleaved ? "_interleaved" : "") +
                           (r.inverse ? "_inverse" : "") +
                           (r.first_position > 0 ? "_at" + std::to_string(r.first_position) : "") +
                           (r.offset > 0 ? "_offset" + std::to_string(r.offset) : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Values bounds = documents_of(s, r);
            const int64_t num_tokens = r.first_position + s.T;
            const Tensor qkv =
                arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, random_values(s.grouped(), 1, x));
            arrays.run(Rotary{
                .qkv = qkv,
                .angles =
                    arrays.make(DType::kFloat32, {num_tokens + 1, 2, r.num_pairs}, angles_of(s, r)),
                .first_position = r.first_position - r.offset,
                .offset = arrays.offset(r.offset),
                .document_bounds = bounds.empty()
                                       ? Tensor()
                                       : arrays.make(DType::kInt32, {s.B, num_tokens, 2}, bounds),
                .interleaved = r.interleaved,
                .inverse = r.inverse});
            return {arrays.output("qkv", qkv)};
          },
          [=]() -> Outputs {
            return {{"qkv", rotated(random_values(s.grouped(), 1, x), s, r)}};
          }};
}

}  // namespace

void add_qkv_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{2, 5, 1, 1, 8}, {1, 7, 2, 3, 16}}
          : std::vector<Shape>{
                {2, 37, 3, 1, 64}, {1, 130, 2, 4, 128}, {2, 37, 3, 2, 145}, {1, 130, 2, 4, 20}};
  for (const Shape& s : shapes) {
    for (const int64_t num_pairs : {s.D / 2, sizes == Sizes::kSmall ? int64_t{3} : s.D / 4}) {
      for (const bool interleaved : {false, true}) {
        cases.push_back(rotate(x, s, {.num_pairs = num_pairs, .interleaved = interleaved}));
        cases.push_back(rotate(x, s,
                               {.num_pairs = num_pairs,
                                .interleaved = interleaved,
                                .inverse = true,
                                .documents = {.length = 4, .is_random = true}}));
        cases.push_back(rotate(x, s,
                               {.num_pairs = num_pairs,
                                .interleaved = interleaved,
                                .documents = {.length = interleaved ? 6 : 0, .is_random = true},
                                .first_position = 11,
                                .offset = interleaved ? 11 : 0}));
      }
    }
  }
}

}  // namespace weft::test
