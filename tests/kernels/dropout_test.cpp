// Dropout drops as often and scales as much as it should, and its decision depends on the element's
// global index alone.
#include "kernels/numbers/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include "kernels/numbers/philox.h"
#include "tests/kernels/op_case.h"

namespace weft::test {
namespace {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, MatchesRandom123) {
  const PhiloxBlock zeros = philox(0, 0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5U);
  EXPECT_EQ(zeros.word[1], 0xe169c58dU);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cU);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8U);
  const PhiloxBlock ones = philox(~0ULL, ~0ULL, ~0ULL);
  EXPECT_EQ(ones.word[0], 0x408f276dU);
  EXPECT_EQ(ones.word[1], 0x41c83b0eU);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6U);
  EXPECT_EQ(ones.word[3], 0x6d5451fdU);
  // Digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  const PhiloxBlock pi =
      philox(0x299f31d0a4093822ULL, 0x0370734413198a2eULL, 0x85a308d3243f6a88ULL);
  EXPECT_EQ(pi.word[0], 0xd16cfe09U);
  EXPECT_EQ(pi.word[1], 0x94fdccebU);
  EXPECT_EQ(pi.word[2], 0x5001e420U);
  EXPECT_EQ(pi.word[3], 0x24126ea1U);
}

TEST(Dropout, ThresholdIsProbabilityTimesTwoToThe16Rounded) {
  EXPECT_EQ(dropout_threshold(0.0F), 0U);
  EXPECT_EQ(dropout_threshold(0.1F), 6554U);
  EXPECT_EQ(dropout_threshold(0.5F), 0x8000U);
  EXPECT_EQ(dropout_threshold(0x1p-40F), 1U);
  EXPECT_EQ(dropout_threshold(0x0.ffffffp0F), 0xffffU);
  EXPECT_FLOAT_EQ(dropout_scale(0.0F), 1.0F);
  EXPECT_FLOAT_EQ(dropout_scale(0.5F), 2.0F);
  EXPECT_FLOAT_EQ(dropout_scale(0.1F), 65536.0F / (65536 - 6554));
}

// Digits below the last 1 decide nothing.
TEST(Dropout, DigitsEndWithTheThresholdsLastOne) {
  EXPECT_EQ(dropout_digits(0), 0);
  EXPECT_EQ(dropout_digits(1), 16);
  EXPECT_EQ(dropout_digits(dropout_threshold(0.1F)), 15);
  EXPECT_EQ(dropout_digits(dropout_threshold(26 / 256.0F)), 7);
  EXPECT_EQ(dropout_digits(dropout_threshold(0.5F)), 1);
}

// Every query and key of a tile has a bit of its own, and none is left over.
TEST(Dropout, AttentionsBitsFillTheirPlace) {
  for (const int64_t T : {1, 63, 64, 65, 200}) {
    std::set<int64_t> places;
    const int64_t tiles = attention_mask_tiles(T);
    for (int64_t query = 0; query < 64 * tiles; ++query) {
      for (int64_t key = 0; key < (query / 64 + 1) * 64; ++key)
        places.insert(32 * attention_mask_word(query, key) + attention_mask_bit(query, key));
    }
    const int64_t num_bits = 64 * 64 * tiles * (tiles + 1) / 2;
    EXPECT_EQ(static_cast<int64_t>(places.size()), num_bits) << T;
    EXPECT_EQ(*places.begin(), 0) << T;
    EXPECT_EQ(*places.rbegin() + 1, num_bits) << T;
    EXPECT_EQ(32 * attention_mask_words(T), num_bits) << T;
  }
}

// Returns the words of attention's mask for one sample and head.
std::vector<uint32_t> attention_mask(Backend& backend, int64_t T, const Dropout& dropout) {
  constexpr int64_t kD = 1;
  Arrays arrays(backend);
  const Tensor kept = arrays.make(DType::kInt32, {1, 1, attention_mask_words(T)});
  arrays.run(AttentionForward{.out = arrays.make(DType::kFloat32, {1, T, 1, kD}),
                              .lse = arrays.make(DType::kFloat32, {1, 1, T}),
                              .dropout_mask = kept,
                              .qkv = arrays.make(DType::kFloat32, {1, T, 1, 3, kD}),
                              .dropout = dropout});
  const auto* words = kept.as<uint32_t>();
  return {words, words + attention_mask_words(T)};
}

TEST(Dropout, AttentionDropsTheFractionItShould) {
  const auto backend = create_cpu_backend(1);
  for (const float p : {0.001F, 0.1F, 0.5F, 0.9F}) {
    const auto words = attention_mask(*backend, 1024, {.p = p, .seed = 6, .stream = 7});
    const double num_bits = 32.0 * static_cast<double>(words.size());
    double num_kept = 0;
    for (const uint32_t word : words) num_kept += __builtin_popcount(word);
    const double q = static_cast<double>(p);
    EXPECT_NEAR(1 - num_kept / num_bits, q, 5 * std::sqrt(q * (1 - q) / num_bits)) << p;
  }
}

// Returns the multipliers of n elements as an operation applies them, to a branch of ones.
Values multipliers(Backend& backend, int64_t n, const Dropout& dropout) {
  Arrays arrays(backend);
  const Tensor out = arrays.make(DType::kFloat32, {1, n});
  arrays.run(ResidualNormForward{
      .residual_out = out,
      .branch = arrays.make(DType::kFloat32, {1, n}, Values(static_cast<size_t>(n), 1.0)),
      .dropout = dropout});
  return arrays.read(out);
}

TEST(Dropout, DropsTheFractionItShouldAndKeepsTheMean) {
  const auto backend = create_cpu_backend(1);
  constexpr int64_t kCount = 1000000;
  for (const float p : {0.1F, 0.5F, 0.9F}) {
    const Values values = multipliers(*backend, kCount, {.p = p, .seed = 1, .stream = 2});
    double num_dropped = 0, sum = 0;
    for (const double value : values) {
      num_dropped += value == 0;
      sum += value;
      if (value == 0) continue;
      ASSERT_FLOAT_EQ(static_cast<float>(value), dropout_scale(p));
    }
    // Five standard deviations of a binomial: 5 * sqrt(p (1-p) / 10^6) <= 0.0025.
    EXPECT_NEAR(num_dropped / kCount, static_cast<double>(p), 0.0025);
    EXPECT_NEAR(sum / kCount, 1.0, 0.0025 / (1 - static_cast<double>(p)));
  }
}

TEST(Dropout, AnotherSeedOrStreamGivesAnotherMask) {
  const auto backend = create_cpu_backend(1);
  const Values mask = multipliers(*backend, 1000, {.p = 0.5F, .seed = 1, .stream = 2});
  EXPECT_EQ(mask, multipliers(*backend, 1000, {.p = 0.5F, .seed = 1, .stream = 2}));
  EXPECT_NE(mask, multipliers(*backend, 1000, {.p = 0.5F, .seed = 3, .stream = 2}));
  EXPECT_NE(mask, multipliers(*backend, 1000, {.p = 0.5F, .seed = 1, .stream = 3}));
}

TEST(Dropout, PartsOfATensorDropWhatTheWholeDrops) {
  const auto backend = create_cpu_backend(1);
  constexpr int64_t kCount = 517;
  const Dropout whole{.p = 0.3F, .seed = 8, .stream = 9, .first_element = (1ULL << 34) + 1};
  const Values wanted = multipliers(*backend, kCount, whole);
  for (const int64_t cut : {1, 2, 3, 4, 63, 64, 65, 300}) {
    Dropout second = whole;
    second.first_element += static_cast<uint64_t>(cut);
    Values got = multipliers(*backend, cut, whole);
    const Values rest = multipliers(*backend, kCount - cut, second);
    got.insert(got.end(), rest.begin(), rest.end());
    EXPECT_EQ(got, wanted) << "cut at " << cut;
  }
}

// Sequences that are computed one by one must equal those of the batch to the last bit.
TEST(Dropout, AttentionOfABatchEqualsAttentionOfItsParts) {
  const auto backend = create_cpu_backend(2);
  constexpr int64_t kBatch = 2, kT = 70, kH = 2, kD = 8, kPart = kT * kH * kD;
  constexpr int64_t kWords = attention_mask_words(kT);
  const Dropout dropout{.p = 0.2F, .seed = 4, .stream = 5, .first_element = 128};
  Arrays arrays(*backend);
  const Values qkv = random_values(3 * kBatch * kPart, 1, DType::kFloat32);
  const Tensor out = arrays.make(DType::kFloat32, {kBatch, kT, kH, kD});
  const Tensor all = arrays.make(DType::kFloat32, {kBatch, kT, kH, 3, kD}, qkv);
  arrays.run(AttentionForward{.out = out,
                              .lse = arrays.make(DType::kFloat32, {kBatch, kH, kT}),
                              .dropout_mask = arrays.make(DType::kInt32, {kBatch, kH, kWords}),
                              .qkv = all,
                              .scale = 0.3F,
                              .dropout = dropout});
  const Values wanted = arrays.read(out);
  for (int64_t b = 0; b < kBatch; ++b) {
    Dropout part = dropout;
    part.first_element += static_cast<uint64_t>(b * kH * 32 * kWords);
    const Tensor part_out = arrays.make(DType::kFloat32, {1, kT, kH, kD});
    arrays.run(AttentionForward{
        .out = part_out,
        .lse = arrays.make(DType::kFloat32, {1, kH, kT}),
        .dropout_mask = arrays.make(DType::kInt32, {1, kH, kWords}),
        .qkv = Tensor(all.as<float>() + 3 * b * kPart, DType::kFloat32, {1, kT, kH, 3, kD}),
        .scale = 0.3F,
        .dropout = part});
    EXPECT_EQ(arrays.read(part_out),
              Values(wanted.begin() + b * kPart, wanted.begin() + (b + 1) * kPart));
  }
}

}  // namespace
}  // namespace weft::test
