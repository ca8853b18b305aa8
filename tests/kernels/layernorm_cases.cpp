// LayerNorm and its residual forms: N rows, C columns.
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

constexpr float kEpsilon = 1e-5F;

struct Shape {
  int64_t N, C;
};

std::string shape_name(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_N" + std::to_string(s.N) + "_C" +
         std::to_string(s.C);
}

WorkspaceShape workspace(DType x, const Shape& s) { return {.B = 1, .T = s.N, .C = s.C, .x = x}; }

Dropout dropout_of(float p) {
  return {.p = p, .seed = 77, .stream = (5ULL << 40) + 3, .first_element = (1ULL << 33) + 6};
}

struct Inputs {
  Values inp, branch, weight, bias, dnormed, dresidual_in, dweight, dbias;
  reference::Normalised normalised;  // inp, normalised
  Inputs(DType x, const Shape& s)
      : inp(random_values(s.N * s.C, 1, x, 2.0)),
        branch(random_values(s.N * s.C, 2, x)),
        weight(random_values(s.C, 3, x)),
        bias(random_values(s.C, 4, x)),
        dnormed(random_values(s.N * s.C, 5, x)),
        dresidual_in(random_values(s.N * s.C, 6, x)),
        dweight(random_values(s.C, 7, DType::kFloat32)),
        dbias(random_values(s.C, 8, DType::kFloat32)),
        normalised(reference::layernorm(inp, weight, bias, kEpsilon)) {}
};

OpCase forward(DType x, Shape s) {
  return {shape_name("layernorm_forward", x, s),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Tensor normed = arrays.make(x, {s.N, s.C});
            const Tensor mean = arrays.make(DType::kFloat32, {s.N});
            const Tensor rstd = arrays.make(DType::kFloat32, {s.N});
            backend.layernorm_forward(normed, mean, rstd, arrays.make(x, {s.N, s.C}, in.inp),
                                      arrays.make(x, {s.C}, in.weight),
                                      arrays.make(x, {s.C}, in.bias), kEpsilon);
            return {arrays.output("normed", normed), arrays.output("mean", mean),
                    arrays.output("rstd", rstd)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            return {{"normed", in.normalised.normed},
                    {"mean", in.normalised.mean},
                    {"rstd", in.normalised.rstd}};
          }};
}

OpCase residual_forward(DType x, Shape s, float p, bool in_place) {
  const std::string name = shape_name("residual_layernorm_forward", x, s) +
                           (p > 0 ? "_dropout" : "") + (in_place ? "_in_place" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend, workspace(x, s));
            const Tensor normed = arrays.make(x, {s.N, s.C});
            const Tensor residual = arrays.make(x, {s.N, s.C}, in.inp);
            const Tensor residual_out = in_place ? residual : arrays.make(x, {s.N, s.C});
            const Tensor mean = arrays.make(DType::kFloat32, {s.N});
            const Tensor rstd = arrays.make(DType::kFloat32, {s.N});
            backend.residual_layernorm_forward(
                normed, residual_out, mean, rstd, residual, arrays.make(x, {s.N, s.C}, in.branch),
                arrays.make(x, {s.C}, in.weight), arrays.make(x, {s.C}, in.bias), kEpsilon,
                dropout_of(p));
            // A bf16 sum that is nearly a tie may be stored either way, and its statistics follow.
            return {arrays.output("residual_out", residual_out),
                    arrays.output("normed", normed),
                    {"mean", arrays.read(mean), x},
                    {"rstd", arrays.read(rstd), x}};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const Values mask = reference::dropout_multipliers(dropout_of(p), s.N * s.C);
            // The sum is normalised as it was stored.
            const Values sum =
                rounded(reference::add(in.inp, reference::multiply(in.branch, mask)), x);
            const auto result = reference::layernorm(sum, in.weight, in.bias, kEpsilon);
            return {{"residual_out", sum},
                    {"normed", result.normed},
                    {"mean", result.mean},
                    {"rstd", result.rstd}};
          }};
}

struct BackwardOptions {
  bool residual = false;  // dresidual_in is given
  bool in_place = false;  // dresidual is dresidual_in
  bool branch = false;
  float p = 0;
  bool accumulate = true;
};

std::string backward_name(DType x, const Shape& s, const BackwardOptions& o) {
  return shape_name("layernorm_backward", x, s) + (o.residual ? "_residual" : "") +
         (o.in_place ? "_in_place" : "") + (o.branch ? "_branch" : "") +
         (o.p > 0 ? "_dropout" : "") + (o.accumulate ? "_accumulate" : "");
}

Outputs run_backward(Backend& backend, DType x, const Shape& s, const BackwardOptions& o) {
  const Inputs in(x, s);
  Arrays arrays(backend, workspace(x, s));
  const Tensor dresidual_in = o.residual ? arrays.make(x, {s.N, s.C}, in.dresidual_in) : Tensor();
  const Tensor dresidual = o.in_place ? dresidual_in : arrays.make(x, {s.N, s.C});
  const Tensor dbranch = o.branch ? arrays.make(x, {s.N, s.C}) : Tensor();
  const Tensor dweight = arrays.make(DType::kFloat32, {s.C}, in.dweight);
  const Tensor dbias = arrays.make(DType::kFloat32, {s.C}, in.dbias);
  backend.layernorm_backward(
      dresidual, dbranch, dweight, dbias, arrays.make(x, {s.N, s.C}, in.dnormed), dresidual_in,
      arrays.make(x, {s.N, s.C}, in.inp), arrays.make(DType::kFloat32, {s.N}, in.normalised.mean),
      arrays.make(DType::kFloat32, {s.N}, in.normalised.rstd), arrays.make(x, {s.C}, in.weight),
      dropout_of(o.p), o.accumulate);
  Outputs outputs{arrays.output("dresidual", dresidual), arrays.output("dweight", dweight),
                  arrays.output("dbias", dbias)};
  if (o.branch) outputs.push_back(arrays.output("dbranch", dbranch));
  return outputs;
}

Outputs expected_backward(DType x, const Shape& s, const BackwardOptions& o) {
  const Inputs in(x, s);
  const auto of_inp = [&](const Values& v) {
    return reference::layernorm(v, in.weight, in.bias, kEpsilon).normed;
  };
  const auto of_weight = [&](const Values& v) {
    return reference::layernorm(in.inp, v, in.bias, kEpsilon).normed;
  };
  const auto of_bias = [&](const Values& v) {
    return reference::layernorm(in.inp, in.weight, v, kEpsilon).normed;
  };
  Values dresidual = reference::gradient(of_inp, in.inp, in.dnormed);
  if (o.residual) dresidual = reference::add(dresidual, in.dresidual_in);
  Values dweight = reference::gradient(of_weight, in.weight, in.dnormed);
  Values dbias = reference::gradient(of_bias, in.bias, in.dnormed);
  if (o.accumulate) {
    dweight = reference::add(dweight, in.dweight);
    dbias = reference::add(dbias, in.dbias);
  }
  Outputs outputs{{"dresidual", dresidual}, {"dweight", dweight}, {"dbias", dbias}};
  if (o.branch) {
    const Values mask = reference::dropout_multipliers(dropout_of(o.p), s.N * s.C);
    outputs.push_back({"dbranch", reference::multiply(dresidual, mask)});
  }
  return outputs;
}

OpCase backward(DType x, Shape s, BackwardOptions o) {
  return {backward_name(x, s, o), [=](Backend& backend) { return run_backward(backend, x, s, o); },
          [=] { return expected_backward(x, s, o); }};
}

}  // namespace

void add_layernorm_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{1, 8}, {5, 24}, {19, 72}}
          : std::vector<Shape>{{3, 64}, {37, 96}, {257, 768}, {130, 1032}, {65, 2048}, {17, 5120}};
  for (const Shape& s : shapes) {
    cases.push_back(forward(x, s));
    cases.push_back(residual_forward(x, s, 0, false));
    cases.push_back(residual_forward(x, s, 0.1F, false));
    cases.push_back(residual_forward(x, s, 0.1F, true));
    cases.push_back(backward(x, s, {}));
    cases.push_back(backward(x, s, {.residual = true, .accumulate = false}));
    cases.push_back(backward(x, s, {.residual = true, .in_place = true}));
    cases.push_back(backward(x, s, {.branch = true, .p = 0.1F}));
    cases.push_back(backward(
        x, s,
        {.residual = true, .in_place = true, .branch = true, .p = 0.1F, .accumulate = false}));
  }
}

}  // namespace weft::test
