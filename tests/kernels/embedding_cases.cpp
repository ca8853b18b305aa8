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

struct Inputs {
  Values tokens, word, dout, dword;
  Inputs(DType x, const Shape& s)
      : tokens(random_ids(s.B * s.T, 1, s.V)),
        word(random_values(s.num_words * s.C, 2, x)),
        dout(random_values(s.B * s.T * s.C, 4, x)),
        dword(random_values(s.num_words * s.C, 5, DType::kFloat32)) {}
};

OpCase forward(DType x, Shape s) {
  return {shape_name("embedding_forward", x, s),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor out = arrays.make(x, {s.B, s.T, s.C});
            arrays.run(EmbeddingForward{.out = out,
                                        .tokens = arrays.make(DType::kInt32, {s.B, s.T}, in.tokens),
                                        .word = arrays.make(x, {s.num_words, s.C}, in.word),
                                        .first_word = s.first_word});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            return {{"out", reference::embedding(in.tokens, in.word, s.C, s.first_word)}};
          }};
}

OpCase backward(DType x, Shape s) {
  return {
      shape_name("embedding_backward", x, s),
      [=](Backend& backend) -> Outputs {
        const Inputs in(x, s);
        Arrays arrays(backend);
        const Tensor dword = arrays.make(DType::kFloat32, {s.num_words, s.C}, in.dword);
        arrays.run(EmbeddingBackward{.dword = dword,
                                     .dout = arrays.make(x, {s.B, s.T, s.C}, in.dout),
                                     .tokens = arrays.make(DType::kInt32, {s.B, s.T}, in.tokens),
                                     .first_word = s.first_word});
        return {arrays.output("dword", dword)};
      },
      [=]() -> Outputs {
        const Inputs in(x, s);
        const auto of_word = [&](const Values& word) {
          return reference::embedding(in.tokens, word, s.C, s.first_word);
        };
        const Values dword = reference::gradient(of_word, in.word, in.dout);
        return {{"dword", reference::add(in.dword, dword)}};
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
    cases.push_back(forward(x, s));
    cases.push_back(backward(x, s));
  }
}

}  // namespace weft::test
