// Clearing, converting, gradient norm and AdamW over flat ranges of n numbers.
#include <algorithm>
#include <cmath>

#include "tests/kernels/op_case.h"

namespace weft::test {

namespace {

constexpr DType kSingle = DType::kFloat32;

OpCase zero(DType x, int64_t n) {
  return {"zero_" + type_name(x) + "_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {});
            const Tensor tensor = arrays.make(x, {n}, random_values(n, 1, x));
            // The last element is not part of the call and must stay.
            backend.zero(Tensor(tensor.data(), x, {n - 1}));
            return {arrays.output("tensor", tensor)};
          },
          [=]() -> Outputs {
            Values values(static_cast<size_t>(n), 0.0);
            values.back() = random_values(n, 1, x).back();
            return {{"tensor", values}};
          }};
}

OpCase cast(DType to, DType from, int64_t n) {
  return {"cast_" + type_name(from) + "_to_" + type_name(to) + "_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {});
            const Tensor dst = arrays.make(to, {n});
            backend.cast(dst, arrays.make(from, {n}, random_values(n, 1, from)));
            return {arrays.output("dst", dst)};
          },
          [=]() -> Outputs {
            return {{"dst", rounded(random_values(n, 1, from), to)}};
          }};
}

// fp16 rounds what is below 2^-24 to it or to 0, and from 65,520 on to infinity.
OpCase cast_to_fp16_at_its_limits() {
  const Values from = {65504, 65519,   65520, -65520, 1e30, -1e30,  0x1p-14,
                       3e-6,  0x1p-24, 4e-8,  2e-8,   0,    -5e-30, 1.0009765625};
  return {"cast_to_fp16_at_its_limits",
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {});
            const auto n = static_cast<int64_t>(from.size());
            const Tensor dst = arrays.make(DType::kFloat16, {n});
            backend.cast(dst, arrays.make(kSingle, {n}, from));
            return {with_huge_for_infinite(arrays.output("dst", dst))};
          },
          [=]() -> Outputs {
            return {with_huge_for_infinite({"dst", rounded(from, DType::kFloat16)})};
          }};
}

OpCase sum_of_squares(int64_t n) {
  return {"sum_of_squares_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {.num_parameters = n});
            const Tensor out = arrays.make(kSingle, {1});
            backend.sum_of_squares(out, arrays.make(kSingle, {n}, random_values(n, 1, kSingle)));
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            double total = 0;
            for (const double value : random_values(n, 1, kSingle)) total += value * value;
            return {{"out", {total}}};
          }};
}

OpCase clip_coefficient(const std::string& what, double norm, double max_norm) {
  return {"clip_coefficient_" + what,
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend, {});
            const Tensor clip = arrays.make(kSingle, {2});
            backend.clip_coefficient(clip, arrays.make(kSingle, {1}, {norm * norm}),
                                     static_cast<float>(max_norm));
            return {arrays.output("clip", clip)};
          },
          [=]() -> Outputs {
            const double factor = max_norm == 0 ? 1 : std::min(1.0, max_norm / (norm + 1e-6));
            return {{"clip", {norm, factor}}};
          }};
}

constexpr double kLearningRate = 1e-2, kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8, kDecay = 0.1;
constexpr double kClip = 0.5;
constexpr int kNumSteps = 3;

bool decays(int64_t block) { return block % 3 != 1; }

// Makes kNumSteps updates with other gradients each time. The parameters have the model's type x,
// the masters are always fp32.
Outputs run_adamw(Backend& backend, DType x, int64_t n) {
  Arrays arrays(backend, {.num_parameters = n, .x = x});
  AdamW args;
  args.master = arrays.make(kSingle, {n}, random_values(n, 1, kSingle));
  args.param = x == kSingle ? args.master : arrays.make(x, {n});
  args.m = arrays.make(kSingle, {n});
  args.v = arrays.make(kSingle, {n});
  Values decay_flags;
  for (int64_t block = 0; block < n / kOptimizerBlock; ++block) {
    decay_flags.push_back(decays(block) ? 1 : 0);
  }
  args.decays = arrays.make(DType::kUInt8, {n / kOptimizerBlock}, decay_flags);
  args.clip = arrays.make(kSingle, {2}, {2.0, kClip});
  args.lr = kLearningRate;
  args.beta1 = kBeta1;
  args.beta2 = kBeta2;
  args.eps = kEps;
  args.weight_decay = kDecay;
  for (args.step = 1; args.step <= kNumSteps; ++args.step) {
    const auto stream = static_cast<uint64_t>(10 + args.step);
    args.grad = arrays.make(kSingle, {n}, random_values(n, stream, kSingle));
    backend.adamw(args);
  }
  return {arrays.output("param", args.param), arrays.output("master", args.master),
          arrays.output("m", args.m), arrays.output("v", args.v)};
}

// [Loshchilov & Hutter 2019, algorithm 2; torch.optim.AdamW]
Outputs expected_adamw(int64_t n) {
  Values param = random_values(n, 1, kSingle);
  Values m(param.size()), v(param.size());
  for (int step = 1; step <= kNumSteps; ++step) {
    const Values grad = random_values(n, static_cast<uint64_t>(10 + step), kSingle);
    for (size_t i = 0; i < param.size(); ++i) {
      const double g = grad[i] * kClip;
      if (decays(static_cast<int64_t>(i) / kOptimizerBlock)) param[i] *= 1 - kLearningRate * kDecay;
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(kBeta1, step));
      const double v_hat = v[i] / (1 - std::pow(kBeta2, step));
      param[i] -= kLearningRate * m_hat / (std::sqrt(v_hat) + kEps);
    }
  }
  return {{"param", param}, {"master", param}, {"m", m}, {"v", v}};
}

}  // namespace

void add_optimizer_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  for (const int64_t n : {kOptimizerBlock, 7 * kOptimizerBlock, 100 * kOptimizerBlock}) {
    cases.push_back({"adamw_" + type_name(x) + "_n" + std::to_string(n),
                     [=](Backend& backend) { return run_adamw(backend, x, n); },
                     [=] { return expected_adamw(n); }});
  }
  for (const int64_t n : {2, 1001, 70000}) cases.push_back(zero(x, n));
  for (const int64_t n : {1, 1001, 70000}) {
    cases.push_back(cast(x, DType::kFloat32, n));
    cases.push_back(cast(x, x == kSingle ? DType::kBFloat16 : x, n));
    if (x == DType::kFloat16) cases.push_back(cast(kSingle, x, n));
  }
  if (x == DType::kFloat16) cases.push_back(cast_to_fp16_at_its_limits());
  if (x != kSingle) return;
  for (const int64_t n : {1, 1024, 300000}) cases.push_back(sum_of_squares(n));
  if (sizes == Sizes::kDevice) cases.push_back(sum_of_squares(5000000));
  cases.push_back(clip_coefficient("clips", 4.0, 1.0));
  cases.push_back(clip_coefficient("leaves_small_norms", 0.5, 1.0));
  cases.push_back(clip_coefficient("is_off", 4.0, 0.0));
}

}  // namespace weft::test
