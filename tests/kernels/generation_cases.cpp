// Keys that are kept, and the choice of tokens.
#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels/op_case.h"

namespace weft::test {

namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Kept {
  int64_t B, T, S, G, R, D, first;
  int64_t offset = 0;  // the part of `first` that is on the device
};

OpCase keep_keys(DType x, Kept s) {
  const int64_t num_qkv = s.B * s.T * s.G * (s.R + 2) * s.D, num_kept = s.B * s.S * s.G * s.D;
  return {
      "keep_keys_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" + std::to_string(s.T) + "_G" +
          std::to_string(s.G) + "_R" + std::to_string(s.R) + "_D" + std::to_string(s.D) +
          (s.offset > 0 ? "_offset" + std::to_string(s.offset) : ""),
      [=](Backend& backend) -> Outputs {
        Arrays arrays(backend);
        const Tensor keys = arrays.make(x, {s.B, s.S, s.G, s.D}, random_values(num_kept, 1, x));
        const Tensor values = arrays.make(x, {s.B, s.S, s.G, s.D}, random_values(num_kept, 2, x));
        arrays.run(KeepKeys{
            .keys = keys,
            .values = values,
            .qkv = arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, random_values(num_qkv, 3, x)),
            .first_position = s.first - s.offset,
            .offset = arrays.offset(s.offset)});
        return {arrays.output("keys", keys), arrays.output("values", values)};
      },
      [=]() -> Outputs {
        Values keys = random_values(num_kept, 1, x), values = random_values(num_kept, 2, x);
        const Values qkv = random_values(num_qkv, 3, x);
        for (int64_t b = 0; b < s.B; ++b) {
          for (int64_t t = 0; t < s.T; ++t) {
            for (int64_t i = 0; i < s.G * s.D; ++i) {
              const int64_t g = i / s.D, d = i % s.D;
              const int64_t to = (b * s.S + s.first + t) * s.G * s.D + i;
              const int64_t key = (((b * s.T + t) * s.G + g) * (s.R + 2) + s.R) * s.D + d;
              keys[at(to)] = qkv[at(key)];
              values[at(to)] = qkv[at(key + s.D)];
            }
          }
        }
        return {{"keys", keys}, {"values", values}};
      }};
}

struct Choice {
  int64_t N, V, Vp;
  double temperature;
  int64_t top_k;
  double top_p;
  int64_t offset = 0;  // the part of the counter that is on the device
};

constexpr uint64_t kSamplingSeed = 5;
constexpr int64_t kCounter = 3;

// Returns the tokens by the definition of sampling, in fp64: candidates in the order of their
// logits, which are all different.
Values chosen(DType x, const Choice& c) {
  const Values logits = random_values(c.N * c.Vp, 1, x, 6.0);
  Values tokens;
  for (int64_t n = 0; n < c.N; ++n) {
    const auto logit = [&](int64_t v) { return logits[at(n * c.Vp + v)]; };
    std::vector<int64_t> order;
    for (int64_t v = 0; v < c.V; ++v) order.push_back(v);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return logit(a) > logit(b); });
    if (c.temperature == 0) {
      tokens.push_back(static_cast<double>(order[0]));
      continue;
    }
    const double largest = logit(order[0]);
    const auto weight = [&](int64_t v) { return std::exp((logit(v) - largest) / c.temperature); };
    const auto cut_behind = [&](size_t count) {  // with those that equal the last one
      while (count < order.size() && logit(order[count]) == logit(order[count - 1])) ++count;
      order.resize(count);
    };
    if (c.top_k > 0 && c.top_k < c.V) cut_behind(at(c.top_k));
    double total = 0;
    for (const int64_t v : order) total += weight(v);
    if (c.top_p < 1) {
      double sum = 0;
      size_t count = 0;
      while (count < order.size() && sum < c.top_p * total) sum += weight(order[count++]);
      cut_behind(count);
      total = 0;
      for (const int64_t v : order) total += weight(v);
    }
    std::sort(order.begin(), order.end());
    const double u =
        static_cast<double>(philox_word(kSamplingSeed, at(n + 7), kCounter)) / std::exp2(32.0);
    double sum = 0;
    size_t i = 0;
    while (i + 1 < order.size() && (sum += weight(order[i])) <= u * total) ++i;
    tokens.push_back(static_cast<double>(order[i]));
  }
  return tokens;
}

OpCase sample(DType x, Choice c) {
  const std::string name =
      "sample_tokens_" + type_name(x) + "_N" + std::to_string(c.N) + "_V" + std::to_string(c.V) +
      "_T" + std::to_string(std::lround(c.temperature * 10)) + "_k" + std::to_string(c.top_k) +
      "_p" + std::to_string(std::lround(c.top_p * 100)) +
      (c.offset > 0 ? "_offset" + std::to_string(c.offset) : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor tokens = arrays.make(DType::kInt32, {c.N});
            Values streams;
            for (int64_t n = 0; n < c.N; ++n) streams.push_back(static_cast<double>(n + 7));
            arrays.run(SampleTokens{
                .tokens = tokens,
                .logits = arrays.make(x, {c.N, c.Vp}, random_values(c.N * c.Vp, 1, x, 6.0)),
                .streams = arrays.make(DType::kInt32, {c.N}, streams),
                .vocabulary_size = c.V,
                .temperature = static_cast<float>(c.temperature),
                .top_k = c.top_k,
                .top_p = static_cast<float>(c.top_p),
                .seed = kSamplingSeed,
                .counter = kCounter - c.offset,
                .offset = arrays.offset(c.offset)});
            return {arrays.output("tokens", tokens)};
          },
          [=]() -> Outputs {
            return {{"tokens", chosen(x, c)}};
          }};
}

}  // namespace

void add_generation_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const bool is_small = sizes == Sizes::kSmall;
  cases.push_back(keep_keys(x, {2, 3, 7, 1, 1, 8, 4}));
  cases.push_back(keep_keys(x, {2, 1, 5, 2, 3, 20, 0}));
  cases.push_back(keep_keys(x, {2, 1, 9, 2, 3, 20, 7, 5}));
  if (!is_small) cases.push_back(keep_keys(x, {3, 65, 200, 4, 1, 64, 100}));
  const int64_t V = is_small ? 50 : 50257, Vp = is_small ? 64 : 50304, N = is_small ? 9 : 33;
  for (const double temperature : {0.0, 0.7, 1.0}) {
    cases.push_back(sample(x, {N, V, Vp, temperature, 0, 1.0}));
    if (temperature == 0) continue;
    cases.push_back(sample(x, {N, V, Vp, temperature, 7, 1.0}));
    cases.push_back(sample(x, {N, V, Vp, temperature, 0, 1.0, 2}));
    cases.push_back(sample(x, {N, V, Vp, temperature, 0, 0.9}));
    cases.push_back(sample(x, {N, V, Vp, temperature, 40, 0.5}));
    cases.push_back(sample(x, {N, V, Vp, temperature, 1, 0.01}));
  }
}

}  // namespace weft::test
