#include "kernels/numbers/float8.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

constexpr DType kFormats[] = {DType::kFloat8E4M3, DType::kFloat8E5M2};

// Values of the OCP 8-bit Floating Point Specification 1.0, tables 1 and 2.
TEST(Float8, HasTheNumbersOfTheSpecification) {
  EXPECT_EQ(from_float8(0x7e, DType::kFloat8E4M3), 448.0F);
  EXPECT_EQ(from_float8(0x08, DType::kFloat8E4M3), 0x1p-6F);
  EXPECT_EQ(from_float8(0x07, DType::kFloat8E4M3), 0.875F * 0x1p-6F);
  EXPECT_EQ(from_float8(0x01, DType::kFloat8E4M3), 0x1p-9F);
  EXPECT_TRUE(std::isnan(from_float8(0x7f, DType::kFloat8E4M3)));
  EXPECT_EQ(from_float8(0x7b, DType::kFloat8E5M2), 57344.0F);
  EXPECT_EQ(from_float8(0x04, DType::kFloat8E5M2), 0x1p-14F);
  EXPECT_EQ(from_float8(0x01, DType::kFloat8E5M2), 0x1p-16F);
  EXPECT_TRUE(std::isinf(from_float8(0x7c, DType::kFloat8E5M2)));
  EXPECT_TRUE(std::isnan(from_float8(0x7e, DType::kFloat8E5M2)));
}

TEST(Float8, EveryNumberKeepsItsBits) {
  for (const DType format : kFormats) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = from_float8(static_cast<uint8_t>(bits), format);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(to_float8(value, format), bits) << bits;
    }
  }
}

// Between two neighbours the nearer one is taken, and in the middle the one whose last digit is
// even.
TEST(Float8, RoundsToTheNearestAndTiesToEven) {
  for (const DType format : kFormats) {
    for (uint8_t bits = 0; from_float8(bits, format) < float8_format(format).largest; ++bits) {
      const auto above = static_cast<uint8_t>(bits + 1);
      const float low = from_float8(bits, format), high = from_float8(above, format);
      const float middle = low + (high - low) / 2;
      EXPECT_EQ(to_float8(middle, format), bits % 2 == 0 ? bits : above);
      EXPECT_EQ(to_float8(std::nextafter(middle, 0.0F), format), bits);
      EXPECT_EQ(to_float8(std::nextafter(middle, 1e9F), format), above);
      EXPECT_EQ(to_float8(-std::nextafter(middle, 1e9F), format), above | 0x80);
    }
  }
}

TEST(Float8, WhatIsTooLargeBecomesTheLargestAndNanStaysNan) {
  for (const DType format : kFormats) {
    const float largest = float8_format(format).largest;
    for (const float value : {largest * 1.2F, 1e30F, INFINITY}) {
      EXPECT_EQ(from_float8(to_float8(value, format), format), largest);
      EXPECT_EQ(from_float8(to_float8(-value, format), format), -largest);
    }
    EXPECT_TRUE(std::isnan(from_float8(to_float8(NAN, format), format)));
  }
}

TEST(Float8, ScalesBringTheLargestNumberToThatOfTheFormat) {
  EXPECT_EQ(fp8_scale(7.0F, DType::kFloat8E4M3), 64.0F);
  EXPECT_EQ(fp8_scale(7.0F, DType::kFloat8E4M3, /*margin=*/2), 16.0F);
  EXPECT_EQ(fp8_scale(0.0F, DType::kFloat8E4M3), 1.0F);
  EXPECT_EQ(fp8_scale(INFINITY, DType::kFloat8E5M2), 1.0F);
  EXPECT_EQ(fp8_scale(NAN, DType::kFloat8E5M2), 1.0F);
  EXPECT_EQ(fp8_scale(1e-40F, DType::kFloat8E5M2), 0x1p126F);
}

}  // namespace
}  // namespace weft
