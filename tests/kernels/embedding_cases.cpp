// Embeddings: tokens (B,T), V words of C numbers, of which this rank holds `num_words` from
// `first_word` on.
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, C, V, first_word, num_words;
};

std::string shape_name(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_C" + std::to_string(s.C) + "_words" +
         std::to_string(s.first_word) + "to" + std::to_string(s.first_word + s.num_words);
}

WorkspaceShape workspace(DType x, const Shape& s) {
  return {.B = s.B, .T = s.T, .C = s.C, .Vp = s.num_words, .x = x};
}

Dropout dropout_of(float p) { return {.p = p, .seed = 5, .stream = 9, .first_element = 41}; }

// The table of positions is longer than the sequence.
int64_t num_positions(const Shape& s) { return s.T + 3; }

struct Inputs {
  Values tokens, word, position, dout, dword, dposition;
  Inputs(DType x, const Shape& s)
      : tokens(random_ids(s.B * s.T, 1, s.V)),
        word(random_values(s.num_words * s.C, 2, x)),
        position(random_values(num_positions(s) * s.C, 3, x)),
        dout(random_values(s.B * s.T * s.C, 4, x)),
        dword(random_values(s.num_words * s.C, 5, DType::kFloat32)),
        dposition(random_values(num_positions(s) * s.C, 6, DType::kFloat32)) {}
};

OpCase forward(DType x, Shape s, float p, bool with_position) {
  const std::string name = shape_name("embedding_forward", x, s) + (p > 0 ? "_dropout" : "") +
                           (with_position ? "_position" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Tensor out = arrays.make(x, {s.B, s.T, s.C});
            const Tensor position =
                with_position ? arrays.make(x, {num_positions(s), s.C}, in.position) : Tensor();
            backend.embedding_forward(out, arrays.make(DType::kInt32, {s.B, s.T}, in.tokens),
                                      arrays.make(x, {s.num_words, s.C}, in.word), position,
                                      s.first_word, dropout_of(p));
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const Values sum = reference::embedding(
                in.tokens, in.word, with_position ? in.position : Values(), s.T, s.C, s.first_word);
            const auto n = static_cast<int64_t>(sum.size());
            return {{"out",
                     reference::multiply(sum, reference::dropout_multipliers(dropout_of(p), n))}};
          }};
}

OpCase backward(DType x, Shape s, float p, bool with_position) {
  const std::string name = shape_name("embedding_backward", x, s) + (p > 0 ? "_dropout" : "") +
                           (with_position ? "_position" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Tensor dword = arrays.make(DType::kFloat32, {s.num_words, s.C}, in.dword);
            const Tensor dposition =
                arrays.make(DType::kFloat32, {num_positions(s), s.C}, in.dposition);
            backend.embedding_backward(dword, with_position ? dposition : Tensor(),
                                       arrays.make(x, {s.B, s.T, s.C}, in.dout),
                                       arrays.make(DType::kInt32, {s.B, s.T}, in.tokens),
                                       s.first_word, dropout_of(p));
            return {arrays.output("dword", dword), arrays.output("dposition", dposition)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto n = static_cast<int64_t>(in.dout.size());
            const Values dsum =
                reference::multiply(in.dout, reference::dropout_multipliers(dropout_of(p), n));
            const auto of_word = [&](const Values& word) {
              return reference::embedding(in.tokens, word, in.position, s.T, s.C, s.first_word);
            };
            const auto of_position = [&](const Values& position) {
              return reference::embedding(in.tokens, in.word, position, s.T, s.C, s.first_word);
            };
            const Values dword = reference::gradient(of_word, in.word, dsum);
            const Values dposition = reference::gradient(of_position, in.position, dsum);
            return {{"dword", reference::add(in.dword, dword)},
                    {"dposition",
                     with_position ? reference::add(in.dposition, dposition) : in.dposition}};
          }};
}

}  // namespace

void add_embedding_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{1, 3, 8, 5, 0, 5}, {2, 9, 72, 11, 0, 11}, {2, 5, 16, 12, 4, 4}}
          : std::vector<Shape>{{1, 17, 64, 31, 0, 31},
                               {3, 129, 768, 4096, 0, 4096},
                               {2, 300, 200, 64, 16, 32},
                               {4, 512, 96, 7, 0, 7}};
  for (const Shape& s : shapes) {
    for (const float p : {0.0F, 0.1F}) {
      for (const bool with_position : {false, true}) {
        cases.push_back(forward(x, s, p, with_position));
        cases.push_back(backward(x, s, p, with_position));
      }
    }
  }
}

}  // namespace weft::test
