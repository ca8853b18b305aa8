// Causal self-attention.
#include <cmath>

#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, H, D;
};

std::string shape_name(const char* operation, DType x, const Shape& s, float p) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_H" + std::to_string(s.H) + "_D" + std::to_string(s.D) +
         (p > 0 ? "_dropout" : "");
}

WorkspaceShape workspace(DType x, const Shape& s) {
  return {.B = s.B, .T = s.T, .C = s.H * s.D, .H = s.H, .D = s.D, .x = x};
}

float scale_of(const Shape& s) { return 1.0F / std::sqrt(static_cast<float>(s.D)); }

Dropout dropout_of(float p) {
  return {.p = p, .seed = 3, .stream = 1, .first_element = 1ULL << 36};
}

struct Inputs {
  Values qkv, dout;
  // Queries and keys are so large that the softmax is far from uniform.
  Inputs(DType x, const Shape& s)
      : qkv(random_values(s.B * s.T * s.H * 3 * s.D, 1, x, 2.0)),
        dout(random_values(s.B * s.T * s.H * s.D, 2, x)) {}
};

struct Buffers {
  Tensor qkv, out, lse;
  Buffers(Arrays& arrays, DType x, const Shape& s, const Inputs& in)
      : qkv(arrays.make(x, {s.B, s.T, s.H, 3, s.D}, in.qkv)),
        out(arrays.make(x, {s.B, s.T, s.H, s.D})),
        lse(arrays.make(DType::kFloat32, {s.B, s.H, s.T})) {}
};

OpCase forward(DType x, Shape s, float p) {
  return {shape_name("attention_forward", x, s, p),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Buffers buffers(arrays, x, s, in);
            backend.attention_forward(buffers.out, buffers.lse, buffers.qkv, scale_of(s),
                                      dropout_of(p));
            return {arrays.output("out", buffers.out), arrays.output("lse", buffers.lse)};
          },
          [=]() -> Outputs {
            const auto result =
                reference::attention(Inputs(x, s).qkv, s.B, s.T, s.H, s.D,
                                     static_cast<double>(scale_of(s)), dropout_of(p));
            return {{"out", result.out}, {"lse", result.lse}};
          }};
}

// Forward runs first: backward takes its out and lse.
OpCase backward(DType x, Shape s, float p) {
  return {shape_name("attention_backward", x, s, p),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Buffers buffers(arrays, x, s, in);
            const Tensor dqkv = arrays.make(x, {s.B, s.T, s.H, 3, s.D});
            backend.attention_forward(buffers.out, buffers.lse, buffers.qkv, scale_of(s),
                                      dropout_of(p));
            backend.attention_backward(dqkv, arrays.make(x, {s.B, s.T, s.H, s.D}, in.dout),
                                       buffers.out, buffers.lse, buffers.qkv, scale_of(s),
                                       dropout_of(p));
            return {arrays.output("dqkv", dqkv)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto f = [&](const Values& qkv) {
              return reference::attention(qkv, s.B, s.T, s.H, s.D, static_cast<double>(scale_of(s)),
                                          dropout_of(p))
                  .out;
            };
            return {{"dqkv", reference::gradient(f, in.qkv, in.dout)}};
          }};
}

}  // namespace

void add_attention_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  // Finite differences check backward where they are quick; T = 67 and 130 cross the CPU's blocks
  // of 64 queries.
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{1, 1, 1, 8}, {2, 7, 3, 8}, {1, 67, 1, 4}}
          : std::vector<Shape>{{1, 1, 1, 64},    {2, 64, 3, 64},  {1, 65, 2, 64},  {2, 200, 2, 64},
                               {1, 513, 1, 64},  {1, 128, 2, 96}, {2, 77, 2, 96},  {1, 300, 1, 96},
                               {1, 128, 2, 128}, {2, 33, 3, 128}, {1, 321, 1, 128}};
  for (const Shape& s : shapes) {
    for (const float p : {0.0F, 0.1F}) {
      cases.push_back(forward(x, s, p));
      cases.push_back(backward(x, s, p));
    }
  }
  if (sizes == Sizes::kSmall) cases.push_back(forward(x, {2, 130, 2, 64}, 0.1F));
}

}  // namespace weft::test
