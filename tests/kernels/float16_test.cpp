// Every fp16 number, and the points between neighbours, against their definition.
#include "kernels/numbers/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/backend.h"

namespace weft {
namespace {

constexpr uint16_t kInfinity = 0x7c00;

// Returns the value of fp16 bits by IEEE 754's formula.
double defined_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(mantissa + 1024, exponent - 25);
}

float value_of(uint16_t bits) { return static_cast<float>(std::bit_cast<Float16>(bits)); }

TEST(Float16, EveryNumberHasItsValueAndComesBack) {
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = value_of(bits);
    if (std::isnan(defined_value(bits))) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), defined_value(bits)) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(Float16(value).bits, bits);
  }
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (uint16_t lower = 0; lower < kInfinity; ++lower) {
    const auto upper = static_cast<uint16_t>(lower + 1);
    // 65,520 lies between the largest number and what would follow it.
    const double next = upper == kInfinity ? 65536.0 : defined_value(upper);
    const auto middle = static_cast<float>((defined_value(lower) + next) / 2);
    const uint16_t even = lower % 2 == 0 ? lower : upper;
    for (const float sign : {1.0F, -1.0F}) {
      const auto rounded = [&](float value) { return Float16(sign * value).bits & 0x7fff; };
      ASSERT_EQ(rounded(middle), even) << lower;
      ASSERT_EQ(rounded(std::nextafterf(middle, 0)), lower) << lower;
      ASSERT_EQ(rounded(std::nextafterf(middle, INFINITY)), upper) << lower;
    }
  }
}

TEST(Float16, NumbersOutOfItsRangeBecomeInfiniteOrZero) {
  using Limits = std::numeric_limits<float>;
  for (const float large : {65520.0F, 65536.0F, 1e10F, Limits::max(), Limits::infinity()}) {
    EXPECT_EQ(Float16(large).bits, kInfinity) << large;
    EXPECT_EQ(Float16(-large).bits, kInfinity | 0x8000) << large;
  }
  for (const float small : {0.0F, 1e-10F, Limits::min(), Limits::denorm_min()}) {
    EXPECT_EQ(Float16(small).bits, 0) << small;
    EXPECT_EQ(Float16(-small).bits, 0x8000) << small;
  }
}

// The backend converts whole vectors; the last elements of a row are left over.
TEST(Float16, TheBackendsCastGivesTheSameBits) {
  std::vector<float> values;
  for (uint32_t word = 0; word < 0xfff00000U; word += 0x1fff1U)
    values.push_back(std::bit_cast<float>(word));
  const auto n = static_cast<int64_t>(values.size());
  std::vector<Float16> halves(values.size());
  std::vector<float> back(values.size());
  const auto backend = create_cpu_backend(2);
  backend->run(Cast{.dst = Tensor(halves.data(), DType::kFloat16, {n}),
                    .src = Tensor(values.data(), DType::kFloat32, {n})});
  backend->run(Cast{.dst = Tensor(back.data(), DType::kFloat32, {n}),
                    .src = Tensor(halves.data(), DType::kFloat16, {n})});
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(halves[i].bits, Float16(values[i]).bits) << values[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(back[i]),
              std::bit_cast<uint32_t>(static_cast<float>(halves[i])))
        << values[i];
  }
}

}  // namespace
}  // namespace weft
