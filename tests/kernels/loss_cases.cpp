// Cross-entropy over N rows of Vp logits, of which V are words; sums.
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

constexpr float kGradientScale = 0.25F;

struct Shape {
  int64_t N, Vp, V;
};

std::string shape_name(DType x, const Shape& s) {
  return "cross_entropy_" + type_name(x) + "_N" + std::to_string(s.N) + "_Vp" +
         std::to_string(s.Vp) + "_V" + std::to_string(s.V);
}

struct Inputs {
  Values logits, targets, mask;
  Inputs(DType x, const Shape& s)
      : logits(random_values(s.N * s.Vp, 1, x, 6.0)),
        targets(random_ids(s.N, 2, s.V)),
        mask(random_ids(s.N, 3, 2)) {}
};

OpCase cross_entropy(DType x, Shape s, bool with_mask, bool with_gradient) {
  const std::string name =
      shape_name(x, s) + (with_mask ? "_mask" : "") + (with_gradient ? "_gradient" : "");
  return {
      name,
      [=](Backend& backend) -> Outputs {
        const Inputs in(x, s);
        Arrays arrays(backend, {.B = 1, .T = s.N, .Vp = s.Vp, .x = x});
        const Tensor losses = arrays.make(DType::kFloat32, {s.N});
        const Tensor logits = arrays.make(x, {s.N, s.Vp}, in.logits);
        backend.cross_entropy(losses, logits, arrays.make(DType::kInt32, {s.N}, in.targets),
                              with_mask ? arrays.make(DType::kFloat32, {s.N}, in.mask) : Tensor(),
                              s.V, kGradientScale, with_gradient);
        return {arrays.output("losses", losses), arrays.output("logits", logits)};
      },
      [=]() -> Outputs {
        const Inputs in(x, s);
        const Values mask = with_mask ? in.mask : Values(static_cast<size_t>(s.N), 1.0);
        Values dlosses(mask);
        for (double& value : dlosses) value *= static_cast<double>(kGradientScale);
        const auto f = [&](const Values& logits) {
          return reference::cross_entropy(logits, in.targets, s.Vp, s.V);
        };
        return {{"losses", reference::multiply(f(in.logits), mask)},
                {"logits", with_gradient ? reference::gradient(f, in.logits, dlosses) : in.logits}};
      }};
}

OpCase sum(int64_t n, bool accumulate) {
  constexpr double kBefore = 3.0, kScale = 0.5;
  return {"sum_n" + std::to_string(n) + (accumulate ? "_accumulate" : ""),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {.B = 1, .T = n});
            const Tensor out = arrays.make(DType::kFloat32, {1}, {kBefore});
            const Values inp = random_values(n, 1, DType::kFloat32);
            backend.sum(out, arrays.make(DType::kFloat32, {n}, inp), static_cast<float>(kScale),
                        accumulate);
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            double total = accumulate ? kBefore : 0;
            for (const double value : random_values(n, 1, DType::kFloat32)) total += kScale * value;
            return {{"out", {total}}};
          }};
}

}  // namespace

void add_loss_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{1, 8, 8}, {6, 32, 27}, {9, 40, 40}}
          : std::vector<Shape>{
                {5, 64, 64}, {37, 1032, 1000}, {130, 50304, 50257}, {9, 50304, 50304}};
  for (const Shape& s : shapes) {
    for (const bool with_mask : {false, true}) {
      cases.push_back(cross_entropy(x, s, with_mask, true));
      cases.push_back(cross_entropy(x, s, with_mask, false));
    }
  }
  if (x != DType::kFloat32) return;
  for (const int64_t n : {1, 1000, 65537}) {
    cases.push_back(sum(n, false));
    cases.push_back(sum(n, true));
  }
}

}  // namespace weft::test
