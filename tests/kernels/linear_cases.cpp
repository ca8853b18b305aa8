// Linear layers: N rows, I inputs, O outputs.
#include <algorithm>

#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

constexpr const char* kNames[] = {"_tanh", "_erf", "_relu", "_squared_relu"};

struct Shape {
  int64_t N, I, O;
};

std::string shape_name(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_N" + std::to_string(s.N) + "_I" +
         std::to_string(s.I) + "_O" + std::to_string(s.O);
}

struct Inputs {
  Values inp, weight, bias, dout, pre, dweight, dbias, dpre_sums;
  Inputs(DType x, const Shape& s)
      : inp(random_values(s.N * s.I, 1, x)),
        weight(random_values(s.O * s.I, 2, x)),
        bias(random_values(s.O, 3, x)),
        dout(random_values(s.N * s.O, 4, x)),
        pre(random_values(s.N * s.I, 5, x, 3.0)),
        dweight(random_values(s.O * s.I, 6, DType::kFloat32)),
        dbias(random_values(s.O, 7, DType::kFloat32)),
        dpre_sums(random_values(s.I, 9, DType::kFloat32)) {}
};

Values scaled(Values values, double scale) {
  for (double& value : values) value *= scale;
  return values;
}

OpCase forward(DType x, Shape s, bool with_bias) {
  const std::string name = shape_name("linear_forward", x, s) + (with_bias ? "_bias" : "");
  return {
      name,
      [=](Backend& backend) -> Outputs {
        const Inputs in(x, s);
        Arrays arrays(backend);
        const Tensor out = arrays.make(x, {s.N, s.O});
        arrays.run(LinearForward{.out = out,
                                 .inp = arrays.make(x, {s.N, s.I}, in.inp),
                                 .weight = arrays.make(x, {s.O, s.I}, in.weight),
                                 .bias = with_bias ? arrays.make(x, {s.O}, in.bias) : Tensor()});
        return {arrays.output("out", out)};
      },
      [=]() -> Outputs {
        const Inputs in(x, s);
        const Values bias = with_bias ? in.bias : Values();
        return {{"out", reference::linear(in.inp, in.weight, bias, s.I, s.O)}};
      }};
}

OpCase linear_activation_forward(DType x, Shape s, Activation activation, bool with_bias) {
  const std::string name = shape_name("linear_gelu_forward", x, s) +
                           kNames[static_cast<int>(activation)] + (with_bias ? "_bias" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor out = arrays.make(x, {s.N, s.O}), pre = arrays.make(x, {s.N, s.O});
            arrays.run(LinearActivationForward{
                .out = out,
                .pre = pre,
                .inp = arrays.make(x, {s.N, s.I}, in.inp),
                .weight = arrays.make(x, {s.O, s.I}, in.weight),
                .bias = with_bias ? arrays.make(x, {s.O}, in.bias) : Tensor(),
                .activation = activation});
            return {arrays.output("out", out), arrays.output("pre", pre)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const Values bias = with_bias ? in.bias : Values();
            const Values pre = reference::linear(in.inp, in.weight, bias, s.I, s.O);
            return {{"out", reference::activation(pre, activation)}, {"pre", pre}};
          },
          activation == Activation::kSquaredRelu ? Accuracy::kSquare : Accuracy::kRounded};
}

OpCase activation_forward(DType x, Shape s, Activation activation) {
  const std::string name = shape_name("gelu_forward", x, s) + kNames[static_cast<int>(activation)];
  return {name,
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(x, {s.N, s.I});
            arrays.run(ActivationForward{.out = out,
                                         .pre = arrays.make(x, {s.N, s.I}, Inputs(x, s).pre),
                                         .activation = activation});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            return {{"out", reference::activation(Inputs(x, s).pre, activation)}};
          }};
}

OpCase backward_input(DType x, Shape s) {
  return {shape_name("linear_backward_input", x, s),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor dinp = arrays.make(x, {s.N, s.I});
            arrays.run(LinearBackwardInput{.dinp = dinp,
                                           .dout = arrays.make(x, {s.N, s.O}, in.dout),
                                           .weight = arrays.make(x, {s.O, s.I}, in.weight)});
            return {arrays.output("dinp", dinp)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto f = [&](const Values& inp) {
              return reference::linear(inp, in.weight, {}, s.I, s.O);
            };
            return {{"dinp", reference::gradient(f, in.inp, in.dout)}};
          }};
}

// With large numbers GELU is linear or 0.
OpCase activation_backward_input(DType x, Shape s, Activation activation, bool with_bias,
                                 bool accumulate, double scale = 1) {
  const std::string name = shape_name("linear_gelu_backward_input", x, s) +
                           kNames[static_cast<int>(activation)] + (with_bias ? "_bias" : "") +
                           (accumulate ? "_accumulate" : "") + (scale > 1 ? "_large" : "");
  return {
      name,
      [=](Backend& backend) -> Outputs {
        const Inputs in(x, s);
        Arrays arrays(backend);
        const Tensor dpre = arrays.make(x, {s.N, s.I});
        const Tensor dbias = arrays.make(DType::kFloat32, {s.I}, in.dpre_sums);
        arrays.run(
            LinearActivationBackwardInput{.dpre = dpre,
                                          .dbias = with_bias ? dbias : Tensor(),
                                          .dout = arrays.make(x, {s.N, s.O}, in.dout),
                                          .weight = arrays.make(x, {s.O, s.I}, in.weight),
                                          .pre = arrays.make(x, {s.N, s.I}, scaled(in.pre, scale)),
                                          .activation = activation,
                                          .accumulate = accumulate});
        Output sums = arrays.output("dbias", dbias);
        if (with_bias) sums.dtype = x;  // They may be those of rounded numbers.
        return {arrays.output("dpre", dpre), sums};
      },
      [=]() -> Outputs {
        const Inputs in(x, s);
        const auto f = [&](const Values& pre) {
          return reference::linear(reference::activation(pre, activation), in.weight, {}, s.I, s.O);
        };
        const Values dpre = reference::gradient(f, scaled(in.pre, scale), in.dout);
        Values dbias = in.dpre_sums;
        if (with_bias && !accumulate) dbias.assign(dbias.size(), 0);
        for (size_t i = 0; with_bias && i < dpre.size(); ++i) dbias[i % dbias.size()] += dpre[i];
        return {{"dpre", dpre}, {"dbias", dbias}};
      }};
}

OpCase backward_weight(DType x, Shape s, bool with_bias, bool accumulate) {
  const std::string name = shape_name("linear_backward_weight", x, s) + (with_bias ? "_bias" : "") +
                           (accumulate ? "_accumulate" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor dweight = arrays.make(DType::kFloat32, {s.O, s.I}, in.dweight);
            const Tensor dbias = arrays.make(DType::kFloat32, {s.O}, in.dbias);
            arrays.run(LinearBackwardWeight{.dweight = dweight,
                                            .dbias = with_bias ? dbias : Tensor(),
                                            .dout = arrays.make(x, {s.N, s.O}, in.dout),
                                            .inp = arrays.make(x, {s.N, s.I}, in.inp),
                                            .accumulate = accumulate});
            return {arrays.output("dweight", dweight), arrays.output("dbias", dbias)};
          },
          [=]() -> Outputs {
            const Inputs in(x, s);
            const auto of_weight = [&](const Values& weight) {
              return reference::linear(in.inp, weight, {}, s.I, s.O);
            };
            const auto of_bias = [&](const Values& bias) {
              return reference::linear(in.inp, in.weight, bias, s.I, s.O);
            };
            Values dweight = reference::gradient(of_weight, in.weight, in.dout);
            Values dbias = reference::gradient(of_bias, in.bias, in.dout);
            if (accumulate) {
              dweight = reference::add(dweight, in.dweight);
              dbias = reference::add(dbias, in.dbias);
            }
            return {{"dweight", dweight}, {"dbias", with_bias ? dbias : in.dbias}};
          }};
}

// Sums of products are fp32; only where they are stored in fp16 they may become infinite.
OpCase product_that_overflows(Shape s) {
  const DType x = DType::kFloat16;
  const auto weight_of = [=] {  // rows of 300, of -300, and of both
    Values weight;
    for (int64_t o = 0; o < s.O; ++o) {
      for (int64_t i = 0; i < s.I; ++i)
        weight.push_back((o % 3 == 1 || (o % 3 == 2 && i % 2 == 1)) ? -300 : 300);
    }
    return weight;
  };
  const Values inp(static_cast<size_t>(s.N * s.I), 40.0);
  return {shape_name("linear_forward", x, s) + "_overflows",
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(x, {s.N, s.O});
            arrays.run(LinearForward{.out = out,
                                     .inp = arrays.make(x, {s.N, s.I}, inp),
                                     .weight = arrays.make(x, {s.O, s.I}, weight_of())});
            return {with_huge_for_infinite(arrays.output("out", out))};
          },
          [=]() -> Outputs {
            return {with_huge_for_infinite(
                {"out", rounded(reference::linear(inp, weight_of(), {}, s.I, s.O), x)})};
          }};
}

std::string glu_name(const char* operation, DType x, const Shape& s, Glu glu) {
  const char* names[] = {"", "swiglu", "geglu", "reglu", "liglu"};
  return std::string(operation) + "_" + type_name(x) + "_N" + std::to_string(s.N) + "_F" +
         std::to_string(s.O) + "_" + names[static_cast<int>(glu)];
}

OpCase glu_forward(DType x, Shape s, Glu glu) {
  return {
      glu_name("glu_forward", x, s, glu),
      [=](Backend& backend) -> Outputs {
        Arrays arrays(backend);
        const Tensor out = arrays.make(x, {s.N, s.O});
        const Values pre = random_values(s.N * 2 * s.O, 8, x, 3.0);
        arrays.run(GluForward{.out = out, .pre = arrays.make(x, {s.N, 2 * s.O}, pre), .glu = glu});
        return {arrays.output("out", out)};
      },
      [=]() -> Outputs {
        return {{"out", reference::glu(random_values(s.N * 2 * s.O, 8, x, 3.0), s.O, glu)}};
      }};
}

OpCase glu_backward(DType x, Shape s, Glu glu) {
  return {glu_name("glu_backward", x, s, glu),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor dpre = arrays.make(x, {s.N, 2 * s.O});
            const Values pre = random_values(s.N * 2 * s.O, 8, x, 3.0);
            arrays.run(GluBackward{.dpre = dpre,
                                   .dout = arrays.make(x, {s.N, s.O}, Inputs(x, s).dout),
                                   .pre = arrays.make(x, {s.N, 2 * s.O}, pre),
                                   .glu = glu});
            return {arrays.output("dpre", dpre)};
          },
          [=]() -> Outputs {
            const auto f = [&](const Values& pre) { return reference::glu(pre, s.O, glu); };
            return {{"dpre", reference::gradient(f, random_values(s.N * 2 * s.O, 8, x, 3.0),
                                                 Inputs(x, s).dout)}};
          }};
}

}  // namespace

void add_linear_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall ? std::vector<Shape>{{1, 8, 8}, {5, 16, 24}, {13, 24, 8}}
                             : std::vector<Shape>{{37, 64, 96}, {256, 200, 768}, {1025, 768, 264}};
  for (const Shape& s : shapes) {
    cases.push_back(forward(x, s, true));
    cases.push_back(forward(x, s, false));
    cases.push_back(activation_forward(x, s, Activation::kGeluTanh));
    cases.push_back(activation_forward(x, s, Activation::kGeluErf));
    for (const Activation activation : {Activation::kRelu, Activation::kSquaredRelu}) {
      cases.push_back(activation_forward(x, s, activation));
      cases.push_back(linear_activation_forward(x, s, activation, true));
      cases.push_back(activation_backward_input(x, s, activation, true, true));
    }
    for (const bool with_bias : {false, true}) {
      cases.push_back(linear_activation_forward(x, s, Activation::kGeluTanh, with_bias));
      cases.push_back(activation_backward_input(x, s, Activation::kGeluErf, with_bias, true));
      cases.push_back(activation_backward_input(x, s, Activation::kGeluTanh, with_bias, true));
    }
    cases.push_back(linear_activation_forward(x, s, Activation::kGeluErf, true));
    cases.push_back(activation_backward_input(x, s, Activation::kGeluTanh, true, false));
    cases.push_back(backward_input(x, s));
    cases.push_back(backward_weight(x, s, true, true));
    cases.push_back(backward_weight(x, s, true, false));
    cases.push_back(backward_weight(x, s, false, true));
  }
  const std::vector<Shape> glu_shapes = sizes == Sizes::kSmall
                                            ? std::vector<Shape>{{3, 1, 8}, {5, 1, 24}}
                                            : std::vector<Shape>{{37, 1, 96}, {257, 1, 1032}};
  for (const Shape& s : glu_shapes) {
    for (const Glu glu : {Glu::kSwiglu, Glu::kGeglu, Glu::kReglu, Glu::kLiglu}) {
      cases.push_back(glu_forward(x, s, glu));
      cases.push_back(glu_backward(x, s, glu));
    }
  }
  if (x == DType::kFloat16) cases.push_back(product_that_overflows({5, 16, 24}));
  if (sizes == Sizes::kDevice) {
    // A Hopper GPU's blocks take four or five tiles each of the first, so that places for announced
    // tiles serve again, and of the others part of one.
    for (const Shape& s : {Shape{20000, 256, 776}, {1, 256, 8}, {130, 512, 40}}) {
      cases.push_back(linear_activation_forward(x, s, Activation::kGeluTanh, true));
      cases.push_back(
          activation_backward_input(x, {s.N, s.O, s.I}, Activation::kGeluTanh, true, true));
    }
    for (const Shape& s : {Shape{130, 264, 64}, {130, 264, 320}}) {
      if (x != DType::kFloat32)
        cases.push_back(
            activation_backward_input(x, s, Activation::kGeluTanh, true, true, /*scale=*/512));
    }
    // So few rows that reading the weight takes the time.
    for (const Shape& s :
         {Shape{1, 768, 2304}, Shape{2, 2304, 776}, Shape{3, 8, 40}, Shape{4, 96, 1032}}) {
      for (const bool with_bias : {false, true}) {
        cases.push_back(forward(x, s, with_bias));
        cases.push_back(linear_activation_forward(x, s, Activation::kGeluTanh, with_bias));
      }
      cases.push_back(linear_activation_forward(x, s, Activation::kGeluErf, true));
      cases.push_back(linear_activation_forward(x, s, Activation::kSquaredRelu, true));
    }
    // The columns of heads that are no multiples of 8: of queries, keys and values, and of
    // attention's output.
    for (const Shape& s : {Shape{65, 200, 435}, {256, 145, 264}, {130, 145, 435}}) {
      for (const bool with_bias : {false, true}) {
        cases.push_back(forward(x, s, with_bias));
        cases.push_back(backward_weight(x, s, with_bias, true));
        cases.push_back(backward_weight(x, s, with_bias, false));
      }
      cases.push_back(backward_input(x, s));
    }
    return;
  }
  cases.push_back(glu_forward(x, {2, 1, 600}, Glu::kSwiglu));  // wider than a task's piece
  cases.push_back(activation_forward(x, {2, 600, 1}, Activation::kGeluTanh));
  // These are deeper and wider than one panel and one tile of the CPU's products.
  cases.push_back(forward(x, {70, 1100, 530}, true));
}

}  // namespace weft::test
