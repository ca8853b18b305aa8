// Initial weights are normal numbers, made from counters by Box-Muller on Philox words.
//
// log, sin and cos are written out in +, -, *, / and sqrt of doubles, which IEEE 754 rounds alike
// everywhere; the C library's may differ in the last bit between processors. (GCC contracts no
// products into FMA under -std=c++20.) Their relative error of 1e-15 vanishes in the rounding to
// float.
#include <algorithm>
#include <cmath>
#include <string_view>

#include "kernels/numbers/philox.h"
#include "trainer/model/parameters.h"

namespace weft {
namespace {

// Streams of initial weights have the highest bit set; those of dropout (model.cpp) have it clear.
constexpr uint64_t kInitialWeights = uint64_t{1} << 63;

// Returns the FNV-1a hash of a name [Fowler, Noll, Vo].
uint64_t hash_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

// Returns c[0] + c[1] x + c[2] x^2 + ...
template <size_t kCount>
double polynomial(const double (&c)[kCount], double x) {
  double sum = c[kCount - 1];
  for (size_t i = kCount - 1; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// Returns ln(u) for u in (0, 1). With u = m * 2^e and m in [sqrt(1/2), sqrt(2)):
// ln(m) = 2 atanh((m - 1) / (m + 1)).
double natural_log(double u) {
  constexpr double kAtanh[] = {1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9, 1.0 / 11,
                               1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  int e = 0;
  double m = std::frexp(u, &e);
  if (m < 0.70710678118654752) {
    m *= 2;
    e -= 1;
  }
  const double s = (m - 1) / (m + 1);
  return e * 0.69314718055994530942 + 2 * s * polynomial(kAtanh, s * s);
}

struct SinCos {
  double sin, cos;
};

// Returns sine and cosine of `turns` full turns, in [0, 1), by Taylor series within an eighth of a
// turn around the nearest quarter.
SinCos sin_cos_of_turns(double turns) {
  constexpr double kSin[] = {1,
                             -1.0 / 6,
                             1.0 / 120,
                             -1.0 / 5040,
                             1.0 / 362880,
                             -1.0 / 39916800,
                             1.0 / 6227020800,
                             -1.0 / 1307674368000};
  constexpr double kCos[] = {1,
                             -1.0 / 2,
                             1.0 / 24,
                             -1.0 / 720,
                             1.0 / 40320,
                             -1.0 / 3628800,
                             1.0 / 479001600,
                             -1.0 / 87178291200,
                             1.0 / 20922789888000};
  const int quarter = static_cast<int>(turns * 4 + 0.5);
  const double x = (turns * 4 - quarter) * 1.57079632679489661923, x2 = x * x;
  const double s = x * polynomial(kSin, x2), c = polynomial(kCos, x2);
  switch (quarter & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// Makes two standard normal numbers from two random words.
void box_muller(uint32_t word0, uint32_t word1, double normal[2]) {
  constexpr double kPerWord = 1.0 / 4294967296.0;
  const double radius = std::sqrt(-2 * natural_log((word0 + 0.5) * kPerWord));
  const SinCos angle = sin_cos_of_turns(word1 * kPerWord);
  normal[0] = radius * angle.cos;
  normal[1] = radius * angle.sin;
}

// Fills in elements [first, first + count) of the global tensor.
void normal_run(uint64_t seed, uint64_t stream, double std, int64_t first, int64_t count,
                float* values) {
  for (int64_t block = first / 4; block * 4 < first + count; ++block) {
    const PhiloxBlock random = philox(seed, stream, static_cast<uint64_t>(block));
    double normal[4];
    box_muller(random.word[0], random.word[1], normal);
    box_muller(random.word[2], random.word[3], normal + 2);
    for (int64_t i = std::max(block * 4, first); i < std::min(block * 4 + 4, first + count); ++i) {
      values[i - first] = static_cast<float>(std * normal[i - block * 4]);
    }
  }
}

}  // namespace

void initial_values(const Parameter& parameter, uint64_t seed, float* values) {
  if (parameter.init_std == 0) {
    std::fill_n(values, parameter.num_elements, parameter.init_value);
    return;
  }
  // A row of the slice is a contiguous run of the global tensor, whichever dimension is sharded.
  // The slice's runs of `run` elements lie `stride` elements apart.
  const int64_t cols = parameter.shape[1], rows = parameter.num_own / cols;
  int64_t run = parameter.num_own, stride = 0, first = 0;
  if (parameter.split_dim >= 0) {
    const auto split = static_cast<size_t>(parameter.split_dim);
    int64_t inner = 1;
    for (size_t dim = split + 1; dim < parameter.global_shape.size(); ++dim)
      inner *= parameter.global_shape[dim];
    run = (parameter.end - parameter.begin) * inner;
    stride = parameter.global_shape[split] * inner;
    first = parameter.begin * inner;
  }
  const uint64_t stream = kInitialWeights | hash_of(parameter.name);
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t in_slice = row * cols;
    normal_run(seed, stream, parameter.init_std, first + in_slice / run * stride + in_slice % run,
               cols, values + in_slice);
  }
  std::fill(values + parameter.num_own, values + parameter.num_elements, 0.0F);
}

}  // namespace weft
