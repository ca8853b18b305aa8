// Rotary positions and groups of queries: B samples of T tokens, G groups of R queries.
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, G, R, D;
  int64_t grouped() const { return B * T * G * (R + 2) * D; }
  int64_t expanded() const { return B * T * G * R * 3 * D; }
};

std::string name_of(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_G" + std::to_string(s.G) + "_R" + std::to_string(s.R) + "_D" +
         std::to_string(s.D);
}

WorkspaceShape workspace(DType x, const Shape& s) {
  return {.B = s.B, .T = s.T, .C = 8, .H = s.G * s.R, .D = s.D, .G = s.G, .x = x};
}

size_t index(int64_t i) { return static_cast<size_t>(i); }

// Returns the place in (B,T,G,R+2,D) of element `i` of (B,T,G*R,3,D).
int64_t place_in_group(int64_t i, const Shape& s) {
  const int64_t d = i % s.D, part = i / s.D % 3, head = i / (3 * s.D);
  const int64_t group = head / s.R, query = head % s.R;
  return (group * (s.R + 2) + (part == 0 ? query : s.R + part - 1)) * s.D + d;
}

OpCase expand(DType x, Shape s, reference::Turn turn) {
  return {name_of("expand_groups", x, s) + turn.name(),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, workspace(x, s));
            const Tensor out = arrays.make(x, {s.B, s.T, s.G * s.R, 3, s.D});
            backend.expand_groups(
                out,
                arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, random_values(s.grouped(), 1, x)),
                make_rotation(arrays, turn, s.B, s.T));
            return {arrays.output("expanded", out)};
          },
          [=]() -> Outputs {
            const Values grouped =
                turn.turned(random_values(s.grouped(), 1, x), s.B, s.T, s.R + 2, s.D, false);
            Values out(index(s.expanded()));
            for (int64_t i = 0; i < s.expanded(); ++i)
              out[index(i)] = grouped[index(place_in_group(i, s))];
            return {{"expanded", out}};
          }};
}

OpCase sum(DType x, Shape s, reference::Turn turn) {
  return {name_of("sum_groups", x, s) + turn.name(),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, workspace(x, s));
            const Tensor out = arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D});
            backend.sum_groups(
                out,
                arrays.make(x, {s.B, s.T, s.G * s.R, 3, s.D}, random_values(s.expanded(), 2, x)),
                make_rotation(arrays, turn, s.B, s.T));
            return {arrays.output("grouped", out)};
          },
          [=]() -> Outputs {
            const Values gradients = random_values(s.expanded(), 2, x);
            Values out(index(s.grouped()), 0.0);
            for (int64_t i = 0; i < s.expanded(); ++i)
              out[index(place_in_group(i, s))] += gradients[index(i)];
            return {{"grouped", turn.turned(rounded(out, x), s.B, s.T, s.R + 2, s.D, true)}};
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
    const auto add = [&](const reference::Turn& turn) {
      cases.push_back(expand(x, s, turn));
      cases.push_back(sum(x, s, turn));
    };
    add({});
    for (const int64_t num_pairs : {s.D / 2, sizes == Sizes::kSmall ? int64_t{3} : s.D / 4}) {
      for (const bool interleaved : {false, true}) {
        add({num_pairs, interleaved});
        add({num_pairs, interleaved, {.length = 4, .is_random = true}});
      }
    }
  }
}

}  // namespace weft::test
