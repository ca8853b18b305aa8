// Compares every CUDA operation with the CPU's, and with itself: equal calls give equal bits.
//
// The mma.sync attention, which serves every GPU but Hopper, runs on Hopper with
// WEFT_ATTENTION=mma_sync.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/flash_kernels.h"
#include "tests/kernels/op_case.h"
#include "tests/needs_gpu.h"

namespace weft::test {
namespace {

class BackendParity : public testing::TestWithParam<OpCase> {
 protected:
  static void SetUpTestSuite() {
    if (num_cuda_devices() > 0) cuda_ = create_cuda_backend(0);
    cpu_ = create_cpu_backend();
  }
  static void TearDownTestSuite() {
    cuda_.reset();
    cpu_.reset();
  }

  static std::unique_ptr<Backend> cpu_, cuda_;
};

std::unique_ptr<Backend> BackendParity::cpu_;
std::unique_ptr<Backend> BackendParity::cuda_;

TEST_P(BackendParity, CudaMatchesCpu) {
  const Outputs cuda = GetParam().run(*cuda_);
  const auto tolerance = [](DType x) { return device_tolerance(x, GetParam().accuracy); };
  EXPECT_EQ(differences(cuda, GetParam().run(*cpu_), tolerance), "");
}

TEST_P(BackendParity, CudaRepeatsItsBits) {
  const Outputs first = GetParam().run(*cuda_), second = GetParam().run(*cuda_);
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].values, second[i].values) << first[i].name;
  }
}

// The softmax's maximum ignores what is not a number, and padding is minus infinity: neither may
// hide it. A thread sees 8 logits of a 16-bit type at a time, or 4 of fp32.
TEST(CudaLoss, NotANumberAmongTheLogitsReachesTheLoss) {
  const auto backend = create_cuda_backend(0);
  constexpr int64_t kWords = 28, kColumns = 32;  // the last vector is padding in part
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto row_with = [&](int64_t begin, int64_t end, double others) {
    Values row(kColumns, others);
    row[20] = 1;  // the target
    std::fill(row.begin() + begin, row.begin() + end, nan);
    return row;
  };
  const std::vector<std::pair<const char*, Values>> rows = {
      {"one of a vector", row_with(3, 4, 1)},
      {"the first vector", row_with(0, 8, 1)},
      {"a vector in the middle", row_with(8, 16, 1)},
      {"the words beside padding", row_with(24, 28, 1)},
      {"all words", row_with(0, kColumns, 0)},
      {"one beside minus infinity", row_with(9, 10, -inf)},
  };
  for (const DType x : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    Arrays arrays(*backend);
    const Tensor targets = arrays.make(DType::kInt32, {1}, {20});
    const Tensor losses = arrays.make(DType::kFloat32, {1});
    for (const auto& [name, row] : rows) {
      for (const bool gradient : {false, true}) {
        arrays.run(CrossEntropy{.losses = losses,
                                .logits = arrays.make(x, {1, kColumns}, row),
                                .targets = targets,
                                .vocabulary_size = kWords,
                                .gradient_scale = 1.0F,
                                .writes_gradient = gradient});
        EXPECT_TRUE(std::isnan(arrays.read(losses)[0])) << type_name(x) << ", " << name;
      }
      const Tensor logits = arrays.make(x, {1, kColumns}, row);
      const Tensor statistics = arrays.make(DType::kFloat32, {1, 1, 3});
      const Tensor own(statistics.data(), DType::kFloat32, {1, 3});
      arrays.run(CrossEntropyStatistics{.statistics = own,
                                        .logits = logits,
                                        .targets = targets,
                                        .first_word = 0,
                                        .vocabulary_size = kWords});
      arrays.run(CrossEntropyGradient{.losses = losses,
                                      .logits = logits,
                                      .statistics = statistics,
                                      .targets = targets,
                                      .first_word = 0,
                                      .vocabulary_size = kWords,
                                      .gradient_scale = 1.0F,
                                      .writes_gradient = true});
      EXPECT_TRUE(std::isnan(arrays.read(losses)[0])) << type_name(x) << ", sharded, " << name;
    }
  }
}

// Returns n numbers quickly: those of a length that no size divides are repeated, which gives rows
// that differ.
Values repeated_values(int64_t n, DType x) {
  const Values some = random_values(1000003, 1, x, 2.0);
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = some[i % some.size()];
  return values;
}

TEST(CudaAttention, KernelsAreThoseOfTheDevice) {
  const auto backend = create_cuda_backend(0);
  const char* choice = std::getenv("WEFT_ATTENTION");
  const bool wants_mma_sync = choice != nullptr && std::string(choice) == "mma_sync";
  const bool is_hopper = backend->description().find("(sm_90,") != std::string::npos;
  const std::string wanted = is_hopper && !wants_mma_sync ? "wgmma" : "mma.sync";
  EXPECT_NE(flash_kernels().find(wanted), std::string::npos) << flash_kernels();
}

TEST(CudaAttention, AnUnknownChoiceOfKernelsIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask_and_exit = [] {
    ::setenv("WEFT_ATTENTION", "wgmma", /*overwrite=*/1);
    try {
      flash_kernels();
    } catch (const std::invalid_argument& error) {
      std::cerr << error.what();
      std::exit(2);
    }
    std::exit(0);
  };
  EXPECT_EXIT(ask_and_exit(), testing::ExitedWithCode(2),
              "WEFT_ATTENTION is wgmma; it can be mma_sync, or be left out");
}

// In such a batch each block of the GPU's has several items, one after the other
// (kernels/cuda/attention/hopper_forward/copies.cuh); for a row alone it has at most one.
TEST(CudaAttention, ResultsOfALargeBatchAreThoseOfEachRowAlone) {
  const auto backend = create_cuda_backend(0);
  constexpr DType kX = DType::kBFloat16;
  constexpr int64_t kB = 6, kT = 1000, kH = 12;
  const int64_t words = attention_mask_words(kT);
  for (const int64_t D : {64, 80, 96, 128, 160}) {
    Arrays arrays(*backend);
    const int64_t row = kT * kH * D;
    const Tensor qkv = arrays.make(kX, {kB, kT, kH, 3, D}, repeated_values(3 * kB * row, kX));
    const Tensor bounds = arrays.make(DType::kInt32, {kB, kT, 2},
                                      document_bounds({.length = 400, .is_random = true}, kB, kT));
    const Tensor out = arrays.make(kX, {kB, kT, kH, D});
    const Tensor lse = arrays.make(DType::kFloat32, {kB, kH, kT});
    const Tensor kept = arrays.make(DType::kInt32, {kB, kH, words});
    const auto forward = [&](int64_t b, int64_t count, float p, bool has_documents) {
      const auto at = [b](const Tensor& t, int64_t bytes_of_row) {
        return static_cast<void*>(static_cast<char*>(t.data()) + b * bytes_of_row);
      };
      AttentionForward args = {
          .out = Tensor(at(out, row * 2), kX, {count, kT, kH, D}),
          .lse = Tensor(at(lse, kH * kT * 4), DType::kFloat32, {count, kH, kT}),
          .dropout_mask = Tensor(at(kept, kH * words * 4), DType::kInt32, {count, kH, words}),
          .qkv = Tensor(at(qkv, row * 6), kX, {count, kT, kH, 3, D}),
          .scale = 1.0F / std::sqrt(static_cast<float>(D)),
          .dropout = {.p = p,
                      .seed = 3,
                      .stream = 1,
                      .first_element = static_cast<uint64_t>(b * kH * 32 * words)}};
      if (has_documents)
        args.document_bounds = Tensor(at(bounds, kT * 8), DType::kInt32, {count, kT, 2});
      arrays.run(args);
    };
    const auto results = [&] { return std::pair(arrays.read(out), arrays.read(lse)); };
    for (const float p : {0.0F, 0.1F}) {
      for (const bool has_documents : {false, true}) {
        for (int64_t b = 0; b < kB; ++b) forward(b, 1, p, has_documents);
        const auto alone = results();
        for (int repeat = 0; repeat < 2; ++repeat) {
          arrays.run(Zero{.out = out});
          arrays.run(Zero{.out = lse});
          forward(0, kB, p, has_documents);
          EXPECT_TRUE(alone == results())
              << "D " << D << ", dropout " << p << ", documents " << has_documents;
        }
      }
    }
  }
}

// In such a batch each block of the GPU's takes several tiles of keys one after the other, and
// heads share the memory of their sums, which no batch that the CPU computes quickly does. The
// gradients of a row do not depend on the others, and neither on whether that of a bias is summed;
// a bias gets the sum of all rows.
TEST(CudaAttention, GradientsOfALargeBatchAreThoseOfEachRowAlone) {
  const auto backend = create_cuda_backend(0);
  struct Shape {
    int64_t B, T, H, D;
  };
  for (const Shape& s : {Shape{12, 1000, 12, 64}, {3, 2000, 16, 96}, {3, 2000, 16, 128}}) {
    for (const auto& variant :
         {std::pair(0.0F, false), {0.1F, false}, {0.0F, true}, {0.1F, true}}) {
      const float p = variant.first;
      const bool has_documents = variant.second;
      constexpr DType kX = DType::kBFloat16;
      const std::string where = "D " + std::to_string(s.D) + ", dropout " + std::to_string(p) +
                                (has_documents ? ", documents" : "");
      const float scale = 1.0F / std::sqrt(static_cast<float>(s.D));
      Arrays arrays(*backend);
      // A length that no size divides is repeated, which is quick and gives rows that differ.
      const Values some = random_values(1000003, 1, kX, 2.0);
      const auto repeated = [&](int64_t n, size_t first) {
        Values values(static_cast<size_t>(n));
        for (size_t i = 0; i < values.size(); ++i) values[i] = some[(first + i) % some.size()];
        return values;
      };
      const int64_t row = s.T * s.H * s.D, words = s.H * attention_mask_words(s.T);
      const Tensor qkv = arrays.make(kX, {s.B, s.T, s.H, 3, s.D}, repeated(3 * s.B * row, 0));
      const Tensor dout = arrays.make(kX, {s.B, s.T, s.H, s.D}, repeated(s.B * row, 5000));
      const Tensor bounds =
          arrays.make(DType::kInt32, {s.B, s.T, 2},
                      document_bounds({.length = 400, .is_random = true}, s.B, s.T));
      const Tensor out = arrays.make(kX, {s.B, s.T, s.H, s.D});
      const Tensor lse = arrays.make(DType::kFloat32, {s.B, s.H, s.T});
      const Tensor kept = arrays.make(DType::kInt32, {s.B, s.H, attention_mask_words(s.T)});
      arrays.run(AttentionForward{.out = out,
                                  .lse = lse,
                                  .dropout_mask = kept,
                                  .qkv = qkv,
                                  .document_bounds = has_documents ? bounds : Tensor(),
                                  .scale = scale,
                                  .dropout = {.p = p, .seed = 3, .stream = 1}});
      // The gradients of `count` rows from row `b` on.
      const auto backward = [&](const Tensor& dqkv, int64_t b, int64_t count, const Tensor& bias) {
        const auto at = [](const Tensor& t, int64_t bytes) {
          return static_cast<void*>(static_cast<char*>(t.data()) + bytes);
        };
        arrays.run(AttentionBackward{
            .dqkv = Tensor(at(dqkv, b * row * 6), kX, {count, s.T, s.H, 3, s.D}),
            .dout = Tensor(at(dout, b * row * 2), kX, {count, s.T, s.H, s.D}),
            .out = Tensor(at(out, b * row * 2), kX, {count, s.T, s.H, s.D}),
            .lse = Tensor(at(lse, b * s.H * s.T * 4), DType::kFloat32, {count, s.H, s.T}),
            .dropout_mask = Tensor(at(kept, b * words * 4), DType::kInt32,
                                   {count, s.H, attention_mask_words(s.T)}),
            .qkv = Tensor(at(qkv, b * row * 6), kX, {count, s.T, s.H, 3, s.D}),
            .document_bounds = has_documents
                                   ? Tensor(at(bounds, b * s.T * 8), DType::kInt32, {count, s.T, 2})
                                   : Tensor(),
            .scale = scale,
            .dropout_p = p,
            .dqkv_bias = bias,
            .accumulate = b > 0});
      };
      const Tensor together = arrays.make(kX, {s.B, s.T, s.H, 3, s.D});
      const Tensor alone = arrays.make(kX, {s.B, s.T, s.H, 3, s.D});
      const Tensor bias = arrays.make(DType::kFloat32, {3 * s.H * s.D});
      const Tensor bias_of_rows = arrays.make(DType::kFloat32, {3 * s.H * s.D});
      backward(together, 0, s.B, bias);
      for (int64_t b = 0; b < s.B; ++b) backward(alone, b, 1, bias_of_rows);
      const Output bias_together = arrays.output("bias", bias);
      EXPECT_EQ(differences({bias_together}, {arrays.output("bias", bias_of_rows)},
                            [](DType) {
                              return Tolerance{1e-5, 1e-5, 1e-6};
                            }),
                "")
          << where;
      for (int64_t b = 0; b < s.B; ++b) backward(alone, b, 1, {});
      const Values first = arrays.read(together);
      EXPECT_TRUE(first == arrays.read(alone)) << where;
      EXPECT_GT(std::count_if(first.begin(), first.end(), [](double x) { return x != 0; }),
                s.B * row);
      for (int repeat = 0; repeat < 3; ++repeat) backward(together, 0, s.B, bias);
      EXPECT_TRUE(first == arrays.read(together)) << "repeated, " << where;
      EXPECT_TRUE(bias_together.values == arrays.read(bias)) << "repeated, " << where;
    }
  }
}

// The shapes are random. The seed is printed, and WEFT_TEST_SEED repeats it.
TEST(CudaAttention, MatchesTheCpuAndItselfForRandomShapes) {
  constexpr int kNumShapes = 24;
  const char* given = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "WEFT_TEST_SEED=" << seed << std::endl;
  const auto cpu = create_cpu_backend(), cuda = create_cuda_backend(0);
  const auto tolerance = [](DType x) { return device_tolerance(x, Accuracy::kRandomAttention); };
  for (const OpCase& op_case : random_attention_cases(seed, kNumShapes)) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed) + ", " + op_case.name);
    const Outputs first = op_case.run(*cuda), second = op_case.run(*cuda);
    ASSERT_EQ(first.size(), second.size());
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(first[i].values == second[i].values);
    EXPECT_EQ(differences(first, op_case.run(*cpu), tolerance), "");
  }
}

INSTANTIATE_TEST_SUITE_P(All, BackendParity, testing::ValuesIn(all_cases(Sizes::kDevice)), name_of);

}  // namespace
}  // namespace weft::test
