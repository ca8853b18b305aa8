// Timed GEMM algorithms, which is what users run: the table repeats the bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "kernels/recording_backend.h"
#include "tests/kernels/op_case.h"
#include "tests/needs_gpu.h"

namespace weft::test {
namespace {

// Runs the products of fc1 and fc2 in both directions.
Outputs run_products(Backend& backend, DType x = DType::kBFloat16) {
  Arrays arrays(backend);
  const int64_t N = 512, C = 256, F = 1024;
  const Tensor inp = arrays.make(x, {N, C}, random_values(N * C, 1, x));
  const Tensor weight = arrays.make(x, {F, C}, random_values(F * C, 2, x, 0.1));
  const Tensor bias = arrays.make(x, {F}, random_values(F, 3, x));
  const Tensor pre = arrays.make(x, {N, F}), out = arrays.make(x, {N, F});
  arrays.run(LinearActivationForward{.out = out,
                                     .pre = pre,
                                     .inp = inp,
                                     .weight = weight,
                                     .bias = bias,
                                     .activation = Activation::kGeluTanh});
  const Tensor weight2 = arrays.make(x, {C, F}, random_values(F * C, 4, x, 0.1));
  const Tensor out2 = arrays.make(x, {N, C}), dpre = arrays.make(x, {N, F});
  arrays.run(LinearForward{.out = out2, .inp = out, .weight = weight2});
  const Tensor dweight = arrays.make(DType::kFloat32, {F, C});
  const Tensor dbias = arrays.make(DType::kFloat32, {F});
  arrays.run(LinearActivationBackwardInput{.dpre = dpre,
                                           .dbias = dbias,
                                           .dout = inp,
                                           .weight = weight2,
                                           .pre = pre,
                                           .activation = Activation::kGeluTanh,
                                           .accumulate = false});
  arrays.run(
      LinearBackwardWeight{.dweight = dweight, .dout = dpre, .inp = inp, .accumulate = false});
  arrays.run(
      LinearBackwardWeight{.dweight = dweight, .dout = dpre, .inp = inp, .accumulate = true});
  return {arrays.output("out", out), arrays.output("out2", out2), arrays.output("dpre", dpre),
          arrays.output("dweight", dweight), arrays.output("dbias", dbias)};
}

// Returns the operations that such a call would enqueue.
template <typename Run>
std::vector<AnyOperation> operations_of(const Run& run) {
  RecordingBackend recorder;
  run(recorder);
  return recorder.operations();
}
std::vector<AnyOperation> products(DType x = DType::kBFloat16) {
  return operations_of([x](Backend& backend) { run_products(backend, x); });
}

TEST(Tune, TextOfTheTableRepeatsTheBits) {
  const auto tuned = create_cuda_backend(0);
  EXPECT_EQ(tuned->algorithms(), "");
  EXPECT_EQ(tuned->tune(products(), {}).notes, "");
  const std::string text = tuned->algorithms();
  EXPECT_THAT(text, testing::StartsWith("weft-gemm-algorithms 1\n"));
  EXPECT_THAT(text, testing::HasSubstr(",fused "));
  const Outputs wanted = run_products(*tuned);
  EXPECT_EQ(tuned->algorithms(), text) << "a step brings nothing new";

  const auto other = create_cuda_backend(0);
  other->use_algorithms(text);
  const Outputs got = run_products(*other);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got[i].values, wanted[i].values) << wanted[i].name;
  }
  const auto untuned = create_cuda_backend(0);
  // The epilogue of GELU's derivative is an approximation, and what follows from it differs.
  const auto tolerance = [](DType) {
    return device_tolerance(DType::kBFloat16, Accuracy::kAttention);
  };
  EXPECT_EQ(differences(run_products(*untuned), wanted, tolerance), "");
}

// The device's free memory is that of all processes: another one that takes or releases some
// meanwhile is not there each time, as memory that tuning keeps would be.
TEST(Tune, ReleasesTheMemoryThatItTakes) {
  int64_t kept_bytes = 0;
  for (int turn = 0; turn < 10; ++turn) {
    const auto backend = create_cuda_backend(0);
    const int64_t free_before = backend->free_memory_bytes();
    EXPECT_EQ(backend->tune(products(), {}).notes, "");
    kept_bytes = free_before - backend->free_memory_bytes();
    if (std::abs(kept_bytes) < 64'000'000) return;  // cuBLASLt keeps a little
  }
  ADD_FAILURE() << "tuning keeps " << kept_bytes << " bytes";
}

// The first backend has also timed the products that lost against their fused form.
TEST(Tune, ChoicesOfAnEarlierRunAreFound) {
  const auto first = create_cuda_backend(0), second = create_cuda_backend(0);
  const AlgorithmChoices timed = first->tune(products(), {}).timed;
  EXPECT_TRUE(second->tune(products(), timed).timed.empty());
  const AlgorithmChoices found = parse_algorithms(second->algorithms(), "the second");
  for (const auto& [key, value] : found) EXPECT_EQ(timed.at(key), value) << key;
  EXPECT_GT(found.size(), 4U);
}

// A choice in a file may be damaged. One of a checkpoint decides the bits, so it is not replaced.
TEST(Tune, AnOfferThatCublasltDoesNotTakeIsTimedAnew) {
  std::vector<AnyOperation> operations = products();
  std::erase_if(operations, [](const AnyOperation& operation) {
    return !std::holds_alternative<LinearForward>(operation);
  });
  AlgorithmChoices known = create_cuda_backend(0)->tune(operations, {}).timed;
  ASSERT_EQ(known.size(), 1U);
  std::string& value = known.begin()->second;
  value.pop_back();
  const auto backend = create_cuda_backend(0);
  const AlgorithmChoices timed = backend->tune(operations, known).timed;
  ASSERT_EQ(timed.size(), 1U);
  EXPECT_EQ(timed.begin()->first, known.begin()->first);
  EXPECT_EQ(backend->algorithms(), text_of(timed));
  run_products(*backend);

  const auto resumed = create_cuda_backend(0);
  resumed->use_algorithms(text_of(known));
  EXPECT_THROW(resumed->tune(operations, {}), std::runtime_error);
}

TEST(Tune, Fp16HasItsOwnChoices) {
  const auto tuned = create_cuda_backend(0);
  EXPECT_EQ(tuned->tune(products(), {}).notes, "");
  EXPECT_THAT(tuned->algorithms(), testing::Not(testing::HasSubstr("fp16")));
  EXPECT_EQ(tuned->tune(products(DType::kFloat16), {}).notes, "");
  const std::string text = tuned->algorithms();
  EXPECT_THAT(text, testing::HasSubstr("types=fp16:fp16,epilogue=dgelu"));
  EXPECT_THAT(text, testing::HasSubstr("types=fp16:fp32,"));
  EXPECT_THAT(text, testing::HasSubstr("types=bf16:bf16,"));
  const Outputs wanted = run_products(*tuned, DType::kFloat16);
  EXPECT_EQ(tuned->algorithms(), text) << "a step brings nothing new";
  const auto untuned = create_cuda_backend(0);
  const auto tolerance = [](DType) {
    return device_tolerance(DType::kFloat16, Accuracy::kAttention);
  };
  EXPECT_EQ(differences(run_products(*untuned, DType::kFloat16), wanted, tolerance), "");
}

// Backward may compute GELU again from what forward has stored, so a product that does so beside
// must agree.
TEST(Tune, GeluBesideAProductHasTheBitsOfItsKernel) {
  const int64_t N = 1000, C = 512, F = 1288;
  const auto backend = create_cuda_backend(0);
  for (const DType x : {DType::kBFloat16, DType::kFloat16}) {
    Arrays arrays(*backend);
    const Tensor out = arrays.make(x, {N, F}), pre = arrays.make(x, {N, F});
    const Tensor again = arrays.make(x, {N, F});
    arrays.run(
        LinearActivationForward{.out = out,
                                .pre = pre,
                                .inp = arrays.make(x, {N, C}, random_values(N * C, 1, x)),
                                .weight = arrays.make(x, {F, C}, random_values(F * C, 2, x, 0.3)),
                                .bias = arrays.make(x, {F}, random_values(F, 3, x)),
                                .activation = Activation::kGeluTanh});
    arrays.run(ActivationForward{.out = again, .pre = pre, .activation = Activation::kGeluTanh});
    EXPECT_EQ(arrays.output("out", out).values, arrays.output("again", again).values);
  }
}

// Products of our own and cuBLASLt's ways agree, and the table decides which one runs.
TEST(Tune, OwnProductsAgreeWithCublaslts) {
  const auto tuned = create_cuda_backend(0);
  tuned->tune(products(), {});
  const std::string text = tuned->algorithms();
  const auto with_own = [&](char answer) {
    std::string changed = text;
    int count = 0;
    for (const std::string ending : {",own ", ",own+sums "}) {
      for (size_t at = 0; (at = changed.find(ending, at)) != std::string::npos; ++count) {
        at += ending.size();
        changed[at] = answer;
      }
    }
    EXPECT_EQ(count, 2) << text;
    const auto backend = create_cuda_backend(0);
    backend->use_algorithms(changed);
    return run_products(*backend);
  };
  const auto tolerance = [](DType) {
    return device_tolerance(DType::kBFloat16, Accuracy::kAttention);
  };
  EXPECT_EQ(differences(with_own('1'), with_own('0'), tolerance), "");
}

// Products of this size are searched at length, beyond what the heuristic names.
TEST(Tune, LargeProductsAreRightAndRepeat) {
  const int64_t N = 8192, C = 2048, F = 2048;
  const DType x = DType::kBFloat16;
  const Values inp = random_values(N * C, 1, x), dout = random_values(N * F, 2, x);
  const Values weight = random_values(F * C, 3, x, 0.1), bias = random_values(F, 4, x);
  const auto run = [&](Backend& backend) {
    Arrays arrays(backend);
    const Tensor device_inp = arrays.make(x, {N, C}, inp);
    const Tensor out = arrays.make(x, {N, F}), dweight = arrays.make(DType::kFloat32, {F, C});
    const Tensor dbias = arrays.make(DType::kFloat32, {F});
    arrays.run(LinearForward{.out = out,
                             .inp = device_inp,
                             .weight = arrays.make(x, {F, C}, weight),
                             .bias = arrays.make(x, {F}, bias)});
    const Tensor device_dout = arrays.make(x, {N, F}, dout);
    arrays.run(LinearBackwardWeight{.dweight = dweight,
                                    .dbias = dbias,
                                    .dout = device_dout,
                                    .inp = device_inp,
                                    .accumulate = false});
    arrays.run(LinearBackwardWeight{.dweight = dweight,
                                    .dbias = dbias,
                                    .dout = device_dout,
                                    .inp = device_inp,
                                    .accumulate = true});
    return Outputs{arrays.output("out", out), arrays.output("dweight", dweight),
                   arrays.output("dbias", dbias)};
  };
  const auto tuned = create_cuda_backend(0);
  EXPECT_THAT(tuned->tune(operations_of(run), {}).notes,
              testing::Not(testing::HasSubstr("gave other numbers")));
  const Outputs wanted = run(*tuned);
  const auto other = create_cuda_backend(0);
  other->use_algorithms(tuned->algorithms());
  const Outputs got = run(*other);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(got[i].values, wanted[i].values) << wanted[i].name;
  }
  const auto untuned = create_cuda_backend(0);
  // Matrix units cut off digits where they add, so sums of 8192 products depend on their order.
  const auto tolerance = [](DType dtype) {
    return dtype == DType::kFloat32 ? Tolerance{1e-3, 1e-3, 1e-3}
                                    : device_tolerance(dtype, Accuracy::kRounded);
  };
  EXPECT_EQ(differences(run(*untuned), wanted, tolerance), "");
}

}  // namespace
}  // namespace weft::test
