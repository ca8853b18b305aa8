// The promises of the CPU backend beside the values of its operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "kernels/backend.h"
#include "kernels/cpu/loops/simd.h"
#include "kernels/numbers/bfloat16.h"
#include "tests/kernels/op_case.h"

namespace weft::test {
namespace {

constexpr DType kSingle = DType::kFloat32;
constexpr DType kHalf = DType::kBFloat16;

template <typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(FastExp, IsRightToTwoUnitsInTheLastPlace) {
  for (float x = -87.0F; x < 88.0F; x += 1e-4F * (1.0F + std::abs(x))) {
    const double wanted = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(wanted) - 23);
    ASSERT_LE(std::abs(static_cast<double>(cpu::fast_exp(x)) - wanted), 2 * unit) << "at " << x;
  }
  EXPECT_EQ(cpu::fast_exp(0.0F), 1.0F);
  EXPECT_LT(cpu::fast_exp(-std::numeric_limits<float>::infinity()), 1e-37F);
  EXPECT_GT(cpu::fast_exp(std::numeric_limits<float>::infinity()), 1e38F);
  EXPECT_TRUE(std::isnan(cpu::fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(CpuBackend, AllocatesZeroedMemoryAlignedTo256Bytes) {
  const auto backend = create_cpu_backend(1);
  for (const int64_t num_bytes : {int64_t{0}, int64_t{1}, int64_t{255}, int64_t{100000}}) {
    const auto* bytes =
        static_cast<const unsigned char*>(backend->allocate(num_bytes, Memory::kDevice));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 256, 0U);
    for (int64_t i = 0; i < num_bytes; ++i) ASSERT_EQ(bytes[i], 0);
  }
  EXPECT_THROW(backend->allocate(int64_t{1} << 60, Memory::kDevice), std::bad_alloc);
  EXPECT_THROW(backend->allocate(-1, Memory::kDevice), std::invalid_argument);
}

TEST(CpuBackend, RefusesToReleaseWhatItDidNotAllocate) {
  const auto backend = create_cpu_backend(1);
  void* data = backend->allocate(8, Memory::kPinnedHost);
  backend->release(data, Memory::kPinnedHost);
  backend->release(nullptr, Memory::kDevice);
  int other = 0;
  EXPECT_THROW(backend->release(&other, Memory::kDevice), std::invalid_argument);
}

TEST(CpuBackend, DescribesItself) {
  EXPECT_EQ(create_cpu_backend(1)->description(), "CPU (1 thread)");
  EXPECT_EQ(create_cpu_backend(3)->description(), "CPU (3 threads)");
  EXPECT_THROW(create_cpu_backend(-1), std::invalid_argument);
  const auto backend = create_cpu_backend();
  EXPECT_GT(backend->free_memory_bytes(), 0);
  EXPECT_LE(backend->free_memory_bytes(), backend->total_memory_bytes());
}

TEST(CpuBackend, EventsMeasureTime) {
  const auto backend = create_cpu_backend(1);
  const EventId start = backend->create_timed_event(), stop = backend->create_timed_event();
  backend->record(start, Stream::kCompute);
  backend->record(stop, Stream::kCopy);
  backend->wait(Stream::kCompute, stop);
  backend->synchronize(stop);
  EXPECT_TRUE(backend->has_happened(stop));
  EXPECT_GE(backend->elapsed_ms(start, stop), 0.0F);
  EXPECT_THROW(backend->record(stop + 1, Stream::kCompute), std::invalid_argument);
}

TEST(CpuBackend, WrongArgumentsNameOperationTensorAndWhatItShouldBe) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const Tensor inp = arrays.make(kSingle, {4, 8}), weight = arrays.make(kSingle, {16, 8});
  EXPECT_EQ(message_of([&] {
              backend->run(LinearForward{
                  .out = arrays.make(kSingle, {4, 15}), .inp = inp, .weight = weight});
            }),
            "linear_forward: out is fp32 (4,15), should be fp32 (4,16)");
  EXPECT_EQ(message_of([&] {
              backend->run(
                  LinearForward{.out = arrays.make(kHalf, {4, 16}), .inp = inp, .weight = weight});
            }),
            "linear_forward: out is bf16 (4,16), should be fp32 (4,16)");
  EXPECT_EQ(
      message_of([&] { backend->run(LinearForward{.out = {}, .inp = inp, .weight = weight}); }),
      "linear_forward: out is empty, but the operation needs it");
  EXPECT_EQ(message_of([&] {
              backend->run(AttentionForward{
                  .out = inp, .lse = inp, .qkv = arrays.make(kSingle, {1, 4, 2, 2, 8})});
            }),
            "packed queries, keys and values are fp32 (1,4,2,2,8), should be (B,T,G,R+2,D)");
  EXPECT_EQ(message_of([&] {
              backend->run(
                  ResidualNormForward{.residual_out = inp, .branch = inp, .dropout = {.p = 1.0F}});
            }),
            "residual_norm_forward: dropout probability is 1.000000, should be in [0, 1)");
  EXPECT_EQ(message_of([&] { backend->run(ResidualNormForward{.branch = inp}); }),
            "residual_norm_forward: residual_out is empty, but the operation needs it");
  EXPECT_EQ(message_of([&] {
              backend->run(ResidualNormForward{.normed = inp, .residual_out = inp, .branch = inp});
            }),
            "residual_norm_forward: normed is given, but there is no weight");
  const Tensor e5m2(inp.data(), DType::kFloat8E5M2, {4, 8});
  EXPECT_EQ(message_of([&] {
              backend->run(ResidualNormForward{
                  .normed_fp8 = {.rows = e5m2}, .residual = inp, .weight = inp});
            }),
            "residual_norm_forward: normed_fp8.rows is e5m2 (4,8), should be e4m3 (4,8)");
  EXPECT_EQ(message_of([&] { backend->run(TransposeFp8{.transposed = e5m2, .rows = e5m2}); }),
            "transpose_fp8: transposed is e5m2 (4,8), should be e5m2 (8,4)");
}

TEST(CpuBackend, RefusesQueriesThatDoNotFitTheirKeys) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const auto vectors = [&](int64_t T, int64_t heads) {
    return head_vectors(arrays.make(kSingle, {1, T, heads, 8}));
  };
  const auto message = [&](int64_t Tq, int64_t first_query, int64_t Tk, int64_t heads, float p) {
    return message_of([&] {
      backend->run(AttentionForward{
          .out = arrays.make(kSingle, {1, Tq, 6, 8}),
          .lse = arrays.make(kSingle, {1, 6, Tq}),
          .dropout_mask = arrays.make(DType::kInt32, {1, 6, attention_mask_words(Tk)}),
          .qkv = {vectors(Tq, 6), vectors(Tk, heads), vectors(Tk, heads)},
          .first_query = first_query,
          .dropout = {.p = p}});
    });
  };
  EXPECT_EQ(message(3, 0, 3, 4, 0),
            "attention_forward: q is fp32 (1,3,6,8), but k is fp32 (1,3,4,8): the heads of queries "
            "should be a multiple of those of keys");
  EXPECT_EQ(message(3, 4, 6, 2, 0),
            "attention_forward: queries stand at positions from 4 to 6, but k is fp32 (1,6,2,8)");
  EXPECT_EQ(message(3, 63, 66, 2, 0.1F),
            "attention_forward: first_query is 63, should be a multiple of 64 with dropout");
}

TEST(CpuBackend, RefusesAResidualStreamThatIsNeitherOfTheModelsTypeNorFp32) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const Tensor single = arrays.make(kSingle, {4, 8}), half = arrays.make(kHalf, {4, 8});
  const Tensor sums = arrays.make(kSingle, {8});
  EXPECT_EQ(message_of(
                [&] { backend->run(ResidualNormForward{.residual_out = half, .branch = single}); }),
            "residual_norm_forward: residual_out is bf16 (4,8), should be fp32 (4,8)");
  EXPECT_EQ(
      message_of([&] {
        backend->run(ResidualNormForward{.residual_out = single, .residual = half, .branch = half});
      }),
      "residual_norm_forward: residual is bf16 (4,8), should be fp32 (4,8)");
  EXPECT_EQ(message_of([&] {
              backend->run(
                  ResidualNormBackward{.dresidual = half, .dbranch = single, .dresidual_in = half});
            }),
            "residual_norm_backward: dresidual is bf16 (4,8), should be fp32 (4,8)");
  EXPECT_THAT(
      message_of([&] {
        backend->run(ResidualNormBackward{.dresidual = single,
                                          .dbranch_bias = sums,
                                          .dweight = sums,
                                          .dnormed = half,
                                          .residual = single,
                                          .rstd = arrays.make(kSingle, {4}),
                                          .weight = arrays.make(kHalf, {8})});
      }),
      testing::HasSubstr("dbranch_bias is given, but dbranch, whose rows it sums, is empty"));
}

TEST(CpuBackend, RefusesTargetsOutsideTheVocabulary) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const Tensor losses = arrays.make(kSingle, {2}), logits = arrays.make(kSingle, {2, 8});
  EXPECT_EQ(message_of([&] {
              arrays.run(CrossEntropy{.losses = losses,
                                      .logits = logits,
                                      .targets = arrays.make(DType::kInt32, {2}, {1, 7}),
                                      .vocabulary_size = 7,
                                      .gradient_scale = 1.0F,
                                      .writes_gradient = true});
            }),
            "cross_entropy: target 7 of row 1 is not in the vocabulary of 7");
}

TEST(CpuBackend, RefusesToWorkInTooSmallAWorkspace) {
  const auto backend = create_cpu_backend(1);
  void* data = backend->allocate(64, Memory::kDevice);
  Tensor qkv, out, lse;
  {
    Arrays arrays(*backend);
    qkv = Tensor(backend->allocate(4 * 3 * 8 * 4, Memory::kDevice), kSingle, {1, 4, 1, 3, 8});
    out = Tensor(backend->allocate(4 * 8 * 4, Memory::kDevice), kSingle, {1, 4, 1, 8});
    lse = Tensor(backend->allocate(4 * 4, Memory::kDevice), kSingle, {1, 1, 4});
  }
  backend->set_workspace(data, 64);
  EXPECT_THAT(
      message_of([&] { backend->run(AttentionForward{.out = out, .lse = lse, .qkv = qkv}); }),
      testing::HasSubstr("has 64; plan it with workspace_bytes"));
}

TEST(CpuBackend, CastRoundsToNearestEvenAndKeepsSpecialValues) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const double inf = std::numeric_limits<double>::infinity();
  // 1 + 2^-8 and 1 + 3 * 2^-8 lie halfway between bf16 neighbours.
  const Tensor inp = arrays.make(
      kSingle, {7}, {1.00390625, 1.01171875, -0.0, inf, -inf, std::nan(""), 3.4028234e38});
  const Tensor half = arrays.make(kHalf, {7});
  arrays.run(Cast{.dst = half, .src = inp});
  const Values values = arrays.read(half);
  EXPECT_EQ(values[0], 1.0);
  EXPECT_EQ(values[1], 1.015625);
  EXPECT_TRUE(std::signbit(values[2]));
  EXPECT_EQ(values[3], inf);
  EXPECT_EQ(values[4], -inf);
  EXPECT_TRUE(std::isnan(values[5]));
  EXPECT_EQ(values[6], inf);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(half.as<BFloat16>()[i].bits, BFloat16(inp.as<float>()[i]).bits);
  }
}

TEST(CpuBackend, NotANumberReachesTheLossAndTheGradientNorm) {
  const auto backend = create_cpu_backend(2);
  Arrays arrays(*backend);
  const double nan = std::nan("");
  const Tensor losses = arrays.make(kSingle, {1});
  arrays.run(CrossEntropy{.losses = losses,
                          .logits = arrays.make(kSingle, {1, 8}, {0, 0, nan, 0, 0, 0, 0, 0}),
                          .targets = arrays.make(DType::kInt32, {1}, {0}),
                          .vocabulary_size = 8,
                          .gradient_scale = 1.0F,
                          .writes_gradient = true});
  EXPECT_TRUE(std::isnan(arrays.read(losses)[0]));
  const Tensor squares = arrays.make(kSingle, {1}), clip = arrays.make(kSingle, {2});
  arrays.run(SumOfSquares{.out = squares, .inp = arrays.make(kSingle, {2}, {1, nan})});
  arrays.run(ClipCoefficient{.clip = clip, .sum_of_squares = squares, .max_norm = 1.0F});
  EXPECT_TRUE(std::isnan(arrays.read(clip)[0]));
  EXPECT_TRUE(std::isnan(arrays.read(clip)[1]));
}

TEST(CpuBackend, MaskedRowsHaveNoLossAndNoGradientEvenWhereTheyAreNotFinite) {
  const auto backend = create_cpu_backend(1);
  Arrays arrays(*backend);
  const Tensor losses = arrays.make(kSingle, {1});
  const Tensor logits = arrays.make(kSingle, {1, 8}, Values(8, std::nan("")));
  arrays.run(CrossEntropy{.losses = losses,
                          .logits = logits,
                          .targets = arrays.make(DType::kInt32, {1}, {0}),
                          .loss_mask = arrays.make(kSingle, {1}, {0}),
                          .vocabulary_size = 8,
                          .gradient_scale = 1.0F,
                          .writes_gradient = true});
  EXPECT_EQ(arrays.read(losses)[0], 0.0);
  EXPECT_EQ(arrays.read(logits), Values(8, 0.0));
}

}  // namespace
}  // namespace weft::test
