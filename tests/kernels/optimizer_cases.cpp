// Clearing, converting, gradient norm and AdamW over flat ranges of n numbers.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/moment_rounding.h"
#include "kernels/numbers/split_master.h"
#include "tests/kernels/op_case.h"

namespace weft::test {

namespace {

constexpr DType kSingle = DType::kFloat32;

OpCase zero(DType x, int64_t n) {
  return {"zero_" + type_name(x) + "_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor tensor = arrays.make(x, {n}, random_values(n, 1, x));
            // The last element is not part of the call and must stay.
            arrays.run(Zero{.out = Tensor(tensor.data(), x, {n - 1})});
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
            Arrays arrays(backend);
            const Tensor dst = arrays.make(to, {n});
            arrays.run(Cast{.dst = dst, .src = arrays.make(from, {n}, random_values(n, 1, from))});
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
            Arrays arrays(backend);
            const auto n = static_cast<int64_t>(from.size());
            const Tensor dst = arrays.make(DType::kFloat16, {n});
            arrays.run(Cast{.dst = dst, .src = arrays.make(kSingle, {n}, from)});
            return {with_huge_for_infinite(arrays.output("dst", dst))};
          },
          [=]() -> Outputs {
            return {with_huge_for_infinite({"dst", rounded(from, DType::kFloat16)})};
          }};
}

OpCase sum_of_squares(int64_t n) {
  return {"sum_of_squares_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(kSingle, {1});
            arrays.run(SumOfSquares{
                .out = out, .inp = arrays.make(kSingle, {n}, random_values(n, 1, kSingle))});
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
            Arrays arrays(backend);
            const Tensor clip = arrays.make(kSingle, {2});
            arrays.run(ClipCoefficient{.clip = clip,
                                       .sum_of_squares = arrays.make(kSingle, {1}, {norm * norm}),
                                       .max_norm = static_cast<float>(max_norm)});
            return {arrays.output("clip", clip)};
          },
          [=]() -> Outputs {
            const double factor = max_norm == 0 ? 1 : std::min(1.0, max_norm / (norm + 1e-6));
            return {{"clip", {norm, factor}}};
          }};
}

constexpr double kLearningRate = 1e-2, kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-8, kDecay = 0.1;
constexpr double kClip = 0.5;

constexpr uint64_t kSeed = 1234;

bool decays(int64_t block) { return block % 3 != 1; }
// A last bit of fp32 may decide how a moment is rounded, and the next update would show it. So
// moments in bf16 have one update, and begin with numbers.
int num_steps(DType moments) { return moments == kSingle ? 3 : 1; }
Values first_moments(int64_t n, DType moments) {
  return moments == kSingle ? Values(static_cast<size_t>(n)) : random_values(n, 2, moments);
}
Values second_moments(int64_t n, DType moments) {
  Values values = first_moments(n, moments);
  for (double& value : values) value = std::abs(value);
  return values;
}
int32_t number_of(int64_t block) { return static_cast<int32_t>(block * 5 + 3); }

// The arguments of updates: masters are `masters`, weights have the model's type x, moments their
// own.
AdamW adamw_args(Arrays& arrays, Backend& /*backend*/, DType x, DType moments,
                 const Values& masters) {
  const auto n = static_cast<int64_t>(masters.size());
  AdamW args;
  const Tensor fp32_masters = arrays.make(kSingle, {n}, masters);
  args.param = x == kSingle ? fp32_masters : arrays.make(x, {n});
  if (x == DType::kBFloat16) {
    args.remainder = arrays.make(DType::kUInt8, {remainder_bytes(n)});
    arrays.run(
        SplitMasters{.param = args.param, .remainder = args.remainder, .master = fp32_masters});
  } else {
    args.master = fp32_masters;
  }
  args.m = arrays.make(moments, {n}, first_moments(n, moments));
  args.v = arrays.make(moments, {n}, second_moments(n, moments));
  Values decay_flags, block_numbers;
  for (int64_t block = 0; block < n / kOptimizerBlock; ++block) {
    decay_flags.push_back(decays(block) ? 1 : 0);
    block_numbers.push_back(static_cast<double>(number_of(block)));
  }
  args.decays = arrays.make(DType::kUInt8, {n / kOptimizerBlock}, decay_flags);
  args.block_numbers = arrays.make(DType::kInt32, {n / kOptimizerBlock}, block_numbers);
  args.clip = arrays.make(kSingle, {2}, {2.0, kClip});
  args.lr = kLearningRate;
  args.beta1 = kBeta1;
  args.beta2 = kBeta2;
  args.eps = kEps;
  args.weight_decay = kDecay;
  args.seed = kSeed;
  return args;
}

// Makes updates with other gradients each time.
void make_updates(Arrays& arrays, Backend& /*backend*/, AdamW& args) {
  const int64_t n = args.param.num_elements();
  for (args.step = 1; args.step <= num_steps(args.m.dtype()); ++args.step) {
    const auto stream = static_cast<uint64_t>(10 + args.step);
    args.grad = arrays.make(kSingle, {n}, random_values(n, stream, kSingle));
    arrays.run(args);
  }
}

Tensor masters_of(Arrays& arrays, Backend& /*backend*/, const AdamW& args) {
  if (!args.remainder) return args.master;
  const Tensor masters = arrays.make(kSingle, {args.param.num_elements()});
  arrays.run(JoinMasters{.master = masters, .param = args.param, .remainder = args.remainder});
  return masters;
}

Outputs run_adamw(Backend& backend, DType x, DType moments, int64_t n) {
  Arrays arrays(backend);
  AdamW args = adamw_args(arrays, backend, x, moments, random_values(n, 1, kSingle));
  make_updates(arrays, backend, args);
  return {arrays.output("param", args.param),
          arrays.output("master", masters_of(arrays, backend, args)), arrays.output("m", args.m),
          arrays.output("v", args.v)};
}

double moment_as_stored(double value, int64_t i, int step, bool is_second) {
  const int64_t block = i / kOptimizerBlock, in_block = i % kOptimizerBlock;
  const PhiloxBlock numbers =
      moment_random_numbers(kSeed, step, number_of(block), static_cast<int>(in_block / 4));
  const uint32_t word = numbers.word[in_block % 4];
  BFloat16 rounded;
  rounded.bits = round_at_random(std::bit_cast<uint32_t>(static_cast<float>(value)),
                                 is_second ? word >> 16 : word & 0xffffU);
  return static_cast<double>(static_cast<float>(rounded));
}

// [Loshchilov & Hutter 2019, algorithm 2; torch.optim.AdamW]
Outputs expected_adamw(DType moments, int64_t n) {
  Values param = random_values(n, 1, kSingle);
  Values m = first_moments(n, moments), v = second_moments(n, moments);
  for (int step = 1; step <= num_steps(moments); ++step) {
    const Values grad = random_values(n, static_cast<uint64_t>(10 + step), kSingle);
    for (size_t i = 0; i < param.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const double g = grad[i] * kClip;
      if (decays(at / kOptimizerBlock)) param[i] *= 1 - kLearningRate * kDecay;
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(kBeta1, step));
      const double v_hat = v[i] / (1 - std::pow(kBeta2, step));
      param[i] -= kLearningRate * m_hat / (std::sqrt(v_hat) + kEps);
      if (moments == DType::kFloat32) continue;
      m[i] = moment_as_stored(m[i], at, step, false);
      v[i] = moment_as_stored(v[i], at, step, true);
    }
  }
  return {{"param", param}, {"master", param}, {"m", m}, {"v", v}};
}

OpCase adamw(DType x, DType moments, int64_t n) {
  const std::string of_moments = moments == kSingle ? "" : "_moments_" + type_name(moments);
  return {"adamw_" + type_name(x) + of_moments + "_n" + std::to_string(n),
          [=](Backend& backend) { return run_adamw(backend, x, moments, n); },
          [=] { return expected_adamw(moments, n); }};
}

// Numbers of every kind but NaN, with many ties between two bf16 numbers and their neighbours.
Values numbers_of_all_kinds(int64_t n) {
  Values values;
  for (uint64_t i = 0; values.size() < static_cast<size_t>(n); ++i) {
    const uint32_t random = philox_word(kSeed, 77, i);
    static constexpr uint32_t kLowHalves[] = {0, 1, 0x7fff, 0x8000, 0x8000, 0x8001, 0xffff};
    uint32_t bits = random;
    if (i % 8 < 7) bits = (random & 0xffff0000U) | kLowHalves[i % 8];
    if (i % 3 == 0) bits &= 0x80ffffffU;  // small, among them denormal numbers
    if (i % 1000 == 5) bits = 0x7f800000U | (random & 0x80000000U);
    if (i % 1000 == 6) bits = 0x7f7fffffU | (random & 0x80000000U);  // rounds to infinity
    if (i % 1000 == 7) bits = random & 0x80000000U;
    if ((bits & 0x7fffffffU) > 0x7f800000U) continue;
    values.push_back(static_cast<double>(std::bit_cast<float>(bits)));
  }
  return values;
}

double num_different(const Values& a, const Values& b) {
  double count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool is_same = a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]);
    if (!is_same && !(std::isnan(a[i]) && std::isnan(b[i]))) ++count;
  }
  return count;
}

// Weights with remainders hold what fp32 masters do: to the bit, before and after updates, and the
// weights are the masters rounded to the nearest.
OpCase split_masters_equal_fp32(int64_t n) {
  return {"split_masters_equal_fp32_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Values masters = numbers_of_all_kinds(n);
            AdamW split = adamw_args(arrays, backend, DType::kBFloat16, kSingle, masters);
            AdamW whole = adamw_args(arrays, backend, kSingle, kSingle, masters);
            const auto different = [&](const Values& wanted) -> Values {
              return {num_different(arrays.read(masters_of(arrays, backend, split)), wanted),
                      num_different(arrays.read(split.param), rounded(wanted, DType::kBFloat16))};
            };
            const Values before = different(masters);
            make_updates(arrays, backend, split);
            make_updates(arrays, backend, whole);
            return {{"different_before", before},
                    {"different_after", different(arrays.read(whole.master))}};
          },
          [=]() -> Outputs {
            return {{"different_before", {0, 0}}, {"different_after", {0, 0}}};
          }};
}

}  // namespace

void add_optimizer_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  for (const int64_t n : {kOptimizerBlock, 7 * kOptimizerBlock, 100 * kOptimizerBlock}) {
    cases.push_back(adamw(x, kSingle, n));
    cases.push_back(adamw(x, DType::kBFloat16, n));
  }
  for (const int64_t n : {2, 1001, 70000}) cases.push_back(zero(x, n));
  for (const int64_t n : {1, 1001, 70000}) {
    cases.push_back(cast(x, DType::kFloat32, n));
    cases.push_back(cast(x, x == kSingle ? DType::kBFloat16 : x, n));
    if (x == DType::kFloat16) cases.push_back(cast(kSingle, x, n));
  }
  if (x == DType::kFloat16) cases.push_back(cast_to_fp16_at_its_limits());
  if (x == DType::kBFloat16) cases.push_back(split_masters_equal_fp32(64 * kOptimizerBlock));
  if (x != kSingle) return;
  for (const int64_t n : {1, 1024, 300000}) cases.push_back(sum_of_squares(n));
  if (sizes == Sizes::kDevice) cases.push_back(sum_of_squares(5000000));
  cases.push_back(clip_coefficient("clips", 4.0, 1.0));
  cases.push_back(clip_coefficient("leaves_small_norms", 0.5, 1.0));
  cases.push_back(clip_coefficient("is_off", 4.0, 0.0));
}

}  // namespace weft::test
