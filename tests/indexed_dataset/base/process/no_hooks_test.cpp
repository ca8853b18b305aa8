// The sources of the hooks as a build without WEFT_TEST_HOOKS compiles them: nothing can make it
// fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/test_hooks.h"
#include "indexed_dataset/base/storage/io_fault.h"

namespace weft {
namespace {

TEST(BuildWithoutHooks, PassesPlacesAndCallsThatTheEnvironmentWantsToFail) {
  ::setenv("WEFT_CRASH_AT", "a_place", 1);
  ::setenv("WEFT_IO_FAIL_AT", "1", 1);
  crash_point("a_place");
  EXPECT_FALSE(io_call::is_made_to_fail());
  EXPECT_EQ(active_test_hooks(), "");
  ::unsetenv("WEFT_CRASH_AT");
  ::unsetenv("WEFT_IO_FAIL_AT");
}

TEST(BuildWithoutHooks, TellsATestThatAsksForAFaultHowToGetIt) {
  try {
    set_io_fault(1, 5);
    FAIL() << "the test would pass without the fault that it asks for";
  } catch (const std::logic_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("-DWEFT_TEST_HOOKS=ON"));
  }
  EXPECT_NO_THROW(set_io_fault(0, 0)) << "tests end with it";
}

}  // namespace
}  // namespace weft
