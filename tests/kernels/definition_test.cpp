// Compares every CPU operation with its definition, and its bits for several numbers of threads.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>

#include "tests/kernels/op_case.h"

namespace weft::test {
namespace {

class CpuOperation : public testing::TestWithParam<OpCase> {};

TEST_P(CpuOperation, EqualsItsDefinition) {
  const std::unique_ptr<Backend> backend = create_cpu_backend(2);
  EXPECT_EQ(differences(GetParam().run(*backend), GetParam().expected(), reference_tolerance), "");
}

TEST_P(CpuOperation, GivesTheSameBitsForAnyNumberOfThreads) {
  const Outputs wanted = GetParam().run(*create_cpu_backend(1));
  for (const int num_threads : {1, 2, 7}) {
    const Outputs got = GetParam().run(*create_cpu_backend(num_threads));
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].values, wanted[i].values)
          << got[i].name << ", " << num_threads << " threads";
    }
  }
}

// Shapes that nobody has chosen. The seed is printed, and WEFT_TEST_SEED repeats it.
TEST(CpuAttention, EqualsItsDefinitionForRandomShapes) {
  const char* given = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "WEFT_TEST_SEED=" << seed << std::endl;
  const auto backend = create_cpu_backend(2);
  for (const OpCase& op_case : small_random_attention_cases(seed, /*num_shapes=*/60)) {
    EXPECT_EQ(differences(op_case.run(*backend), op_case.expected(), reference_tolerance), "")
        << op_case.name << ", WEFT_TEST_SEED=" << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuOperation, testing::ValuesIn(all_cases(Sizes::kSmall)), name_of);

}  // namespace
}  // namespace weft::test
