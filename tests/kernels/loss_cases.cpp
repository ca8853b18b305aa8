// Cross-entropy over N rows of Vp logits, of which V are words; sums.
#include <algorithm>
#include <numeric>
#include <utility>

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
  return {name,
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor losses = arrays.make(DType::kFloat32, {s.N});
            const Tensor logits = arrays.make(x, {s.N, s.Vp}, in.logits);
            arrays.run(CrossEntropy{
                .losses = losses,
                .logits = logits,
                .targets = arrays.make(DType::kInt32, {s.N}, in.targets),
                .loss_mask = with_mask ? arrays.make(DType::kFloat32, {s.N}, in.mask) : Tensor(),
                .vocabulary_size = s.V,
                .gradient_scale = kGradientScale,
                .writes_gradient = with_gradient});
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
            return {
                {"losses", reference::multiply(f(in.logits), mask)},
                {"logits", with_gradient ? reference::gradient(f, in.logits, dlosses) : in.logits}};
          }};
}

// A loss scale that is too large must make gradients infinite, for which the step is skipped. Words
// are likely or very unlikely, so that no gradient is near the largest number of fp16.
OpCase cross_entropy_that_overflows(Shape s) {
  constexpr float kLossScale = 4294967296.0F;
  const DType x = DType::kFloat16;
  const auto logits_of = [=] {
    Values logits = random_ids(s.N * s.Vp, 6, 2);
    for (double& value : logits) value = value == 0 ? -6 : 6;
    return logits;
  };
  return {shape_name(x, s) + "_overflows",
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor losses = arrays.make(DType::kFloat32, {s.N});
            const Tensor logits = arrays.make(x, {s.N, s.Vp}, logits_of());
            const Tensor targets = arrays.make(DType::kInt32, {s.N}, random_ids(s.N, 2, s.V));
            arrays.run(CrossEntropy{.losses = losses,
                                    .logits = logits,
                                    .targets = targets,
                                    .vocabulary_size = s.V,
                                    .gradient_scale = kLossScale,
                                    .writes_gradient = true});
            return {arrays.output("losses", losses),
                    with_huge_for_infinite(arrays.output("logits", logits))};
          },
          [=]() -> Outputs {
            const Values targets = random_ids(s.N, 2, s.V);
            const auto f = [&](const Values& logits) {
              return reference::cross_entropy(logits, targets, s.Vp, s.V);
            };
            const Values scales(static_cast<size_t>(s.N), static_cast<double>(kLossScale));
            const Values gradients = reference::gradient(f, logits_of(), scales);
            return {{"losses", f(logits_of())},
                    with_huge_for_infinite({"logits", rounded(gradients, x)})};
          }};
}

// The loss over a vocabulary that `num_ranks` ranks share, each with its columns. The ranks run one
// after the other, and their statistics are joined as an all-gather would join them.
OpCase sharded_cross_entropy(DType x, Shape s, int64_t num_ranks, bool with_mask) {
  const int64_t columns = s.Vp / num_ranks;
  const auto shard = [=](const Values& logits, int64_t rank) {
    Values part;
    for (int64_t n = 0; n < s.N; ++n) {
      const auto first = logits.begin() + n * s.Vp + rank * columns;
      part.insert(part.end(), first, first + columns);
    }
    return part;
  };
  return {"sharded_" + shape_name(x, s) + "_ranks" + std::to_string(num_ranks) +
              (with_mask ? "_mask" : ""),
          [=](Backend& backend) -> Outputs {
            const Inputs in(x, s);
            Arrays arrays(backend);
            const Tensor targets = arrays.make(DType::kInt32, {s.N}, in.targets);
            const Tensor mask = with_mask ? arrays.make(DType::kFloat32, {s.N}, in.mask) : Tensor();
            const Tensor statistics = arrays.make(DType::kFloat32, {num_ranks, s.N, 3});
            std::vector<Tensor> logits;
            for (int64_t rank = 0; rank < num_ranks; ++rank) {
              logits.push_back(arrays.make(x, {s.N, columns}, shard(in.logits, rank)));
              const Tensor own(statistics.as<float>() + rank * s.N * 3, DType::kFloat32, {s.N, 3});
              arrays.run(CrossEntropyStatistics{.statistics = own,
                                                .logits = logits.back(),
                                                .targets = targets,
                                                .first_word = rank * columns,
                                                .vocabulary_size = s.V});
            }
            Outputs outputs;
            for (int64_t rank = 0; rank < num_ranks; ++rank) {
              const Tensor losses = arrays.make(DType::kFloat32, {s.N});
              const Tensor own = logits[static_cast<size_t>(rank)];
              arrays.run(CrossEntropyGradient{.losses = losses,
                                              .logits = own,
                                              .statistics = statistics,
                                              .targets = targets,
                                              .loss_mask = mask,
                                              .first_word = rank * columns,
                                              .vocabulary_size = s.V,
                                              .gradient_scale = kGradientScale,
                                              .writes_gradient = true});
              outputs.push_back(arrays.output("losses " + std::to_string(rank), losses));
              outputs.push_back(arrays.output("logits " + std::to_string(rank), own));
            }
            return outputs;
          },
          [=]() -> Outputs {
            const Outputs whole = cross_entropy(x, s, with_mask, true).expected();
            Outputs outputs;
            for (int64_t rank = 0; rank < num_ranks; ++rank) {
              outputs.push_back({"losses " + std::to_string(rank), whole[0].values});
              outputs.push_back({"logits " + std::to_string(rank), shard(whole[1].values, rank)});
            }
            return outputs;
          }};
}

// The mean of each of B samples; with a mask the last one has no token that counts.
OpCase sample_losses(int64_t B, int64_t T, bool with_mask) {
  const auto mask_of = [=] {
    Values mask = random_ids(B * T, 4, 2);
    std::fill(mask.end() - T, mask.end(), 0.0);
    return with_mask ? mask : Values(mask.size(), 1.0);
  };
  const auto losses_of = [=] {
    return reference::multiply(random_values(B * T, 5, DType::kFloat32, 12.0), mask_of());
  };
  return {
      "sample_losses_B" + std::to_string(B) + "_T" + std::to_string(T) + (with_mask ? "_mask" : ""),
      [=](Backend& backend) -> Outputs {
        Arrays arrays(backend);
        const Tensor out = arrays.make(DType::kFloat32, {B});
        const Tensor mask = with_mask ? arrays.make(DType::kFloat32, {B, T}, mask_of()) : Tensor();
        arrays.run(SampleLosses{.out = out,
                                .losses = arrays.make(DType::kFloat32, {B, T}, losses_of()),
                                .loss_mask = mask});
        return {arrays.output("out", out)};
      },
      [=]() -> Outputs {
        const Values losses = losses_of(), mask = mask_of();
        Values means;
        for (int64_t b = 0; b < B; ++b) {
          const auto of = [&](const Values& values) {
            return std::accumulate(values.begin() + b * T, values.begin() + (b + 1) * T, 0.0);
          };
          means.push_back(of(mask) == 0 ? 0 : of(losses) / of(mask));
        }
        return {{"out", means}};
      }};
}

OpCase sum(int64_t n, bool accumulate) {
  constexpr double kBefore = 3.0, kScale = 0.5;
  return {"sum_n" + std::to_string(n) + (accumulate ? "_accumulate" : ""),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(DType::kFloat32, {1}, {kBefore});
            const Values inp = random_values(n, 1, DType::kFloat32);
            arrays.run(Sum{.out = out,
                           .inp = arrays.make(DType::kFloat32, {n}, inp),
                           .scale = static_cast<float>(kScale),
                           .accumulate = accumulate});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            double total = accumulate ? kBefore : 0;
            for (const double value : random_values(n, 1, DType::kFloat32)) total += kScale * value;
            return {{"out", {total}}};
          }};
}

// A single number need not begin at a multiple of 16 bytes: the loss scale divides a clip
// coefficient in its place.
OpCase sum_in_place() {
  return {"sum_in_place_of_the_second",
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor two = arrays.make(DType::kFloat32, {2}, {3.0, 5.0});
            const Tensor second(two.as<float>() + 1, DType::kFloat32, {1});
            arrays.run(Sum{.out = second, .inp = second, .scale = 0.5F, .accumulate = false});
            return {arrays.output("two", two)};
          },
          [=]() -> Outputs {
            return {{"two", {3.0, 2.5}}};
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
  // The last rank of the second shape has nothing but padding.
  const std::vector<Shape> sharded = sizes == Sizes::kSmall
                                         ? std::vector<Shape>{{6, 32, 27}, {9, 64, 40}}
                                         : std::vector<Shape>{{37, 1024, 1000}, {65, 51200, 37001}};
  for (const Shape& s : sharded) {
    cases.push_back(sharded_cross_entropy(x, s, 1, false));
    cases.push_back(sharded_cross_entropy(x, s, 4, false));
    cases.push_back(sharded_cross_entropy(x, s, 4, true));
  }
  if (x == DType::kFloat16)
    cases.push_back(cross_entropy_that_overflows(sizes == Sizes::kSmall ? Shape{6, 32, 27}
                                                                        : Shape{37, 1032, 1000}));
  if (x != DType::kFloat32) return;
  for (const auto& [B, T] : {std::pair<int64_t, int64_t>{1, 1}, {3, 37}, {5, 1000}, {64, 2048}}) {
    cases.push_back(sample_losses(B, T, false));
    cases.push_back(sample_losses(B, T, true));
  }
  for (const int64_t n : {1, 1000, 65537}) {
    cases.push_back(sum(n, false));
    cases.push_back(sum(n, true));
  }
  cases.push_back(sum_in_place());
}

}  // namespace weft::test
