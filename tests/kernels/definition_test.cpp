// Compares every CPU operation with its definition, and its bits for several numbers of threads.
#include <gtest/gtest.h>

#include <memory>

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

INSTANTIATE_TEST_SUITE_P(All, CpuOperation, testing::ValuesIn(all_cases(Sizes::kSmall)), name_of);

}  // namespace
}  // namespace weft::test
