#include "indexed_dataset/base/process/exit_code.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <regex>
#include <string>
#include <system_error>

namespace weft {
namespace {

template <typename Work>
ExitCode code_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return exit_code_for(error);
  }
  return ExitCode::kDone;
}

TEST(ExitCode, MistakesOfTheProgramAreNoUsageAndNoBadInput) {
  EXPECT_EQ(code_of([] { (void)std::stoi("seven"); }), ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { (void)std::stod("seven"); }), ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { throw std::invalid_argument("an empty vector"); }),
            ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { (void)std::stoi("99999999999"); }), ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { std::regex("("); }), ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { throw std::overflow_error("a count"); }), ExitCode::kInternalError);
  EXPECT_EQ(code_of([] { throw std::logic_error("a task twice"); }), ExitCode::kInternalError);
}

TEST(ExitCode, ErrorsOfUsersAndOfTheWorldHaveTheirOwn) {
  EXPECT_EQ(code_of([] { throw UsageError("--split: no weights"); }), ExitCode::kUsage);
  EXPECT_EQ(code_of([] { as_usage([] { throw std::invalid_argument("WEFT_SIMD=x"); }); }),
            ExitCode::kUsage);
  EXPECT_EQ(code_of([] { throw std::runtime_error("FILE: cut off"); }), ExitCode::kBadInput);
  EXPECT_EQ(code_of([] { throw LimitExceeded("over it"); }), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of([] { throw std::bad_alloc(); }), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of([] { throw std::system_error(ENOSPC, std::generic_category()); }),
            ExitCode::kNoSpace);
  EXPECT_EQ(code_of([] { throw std::system_error(EIO, std::generic_category()); }), ExitCode::kIo);
  EXPECT_EQ(code_of([] { throw RunFailed(13, "rank 2 was silent"); }), ExitCode::kPeerLost);
}

}  // namespace
}  // namespace weft
