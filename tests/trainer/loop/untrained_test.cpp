// What weft-data inspect says of iterations that a run has left out.
#include <gmock/gmock.h>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Untrained : public Training {
 protected:
  std::string inspect(const std::string& command, const std::string& run) {
    const std::string program = std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-data";
    const std::string line = program + " inspect " + command + " --run " + (folder_ / run).string();
    EXPECT_EQ(wait(start_program(words(line))), 0) << output();
    return output();
  }
};

// Each iteration has 8 samples of 16 tokens, and 3, 6, 7 and 8 train nothing.
TEST_F(Untrained, IterationsAreMarkedInSamplesAndAreNoExposure) {
  const Arguments skip = {"--iterations-to-skip", "3", "--skip-train-iteration-range", "6-8"};
  ASSERT_EQ(run(arguments("whole", 12, skip)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 12, with(skip, {"--exit-interval", "7"}))), 0) << output();
  ASSERT_EQ(run(arguments("parts", 12, skip)), 0) << output();
  for (const char* name : {"whole", "parts"}) {
    SCOPED_TRACE(name);
    for (int i = 1; i <= 12; ++i) {
      const std::string samples = inspect("samples --iteration " + std::to_string(i), name);
      EXPECT_THAT(samples, HasSubstr("iteration " + std::to_string(i)));
      EXPECT_EQ(samples.find(", not trained") != std::string::npos, i == 3 || (i >= 6 && i <= 8))
          << samples;
    }
    EXPECT_THAT(inspect("exposure", name),
                AllOf(HasSubstr(": 64 samples, 1,024 tokens"),
                      HasSubstr("32 samples are left out: their iterations")));
    EXPECT_THAT(inspect("exposure --iteration 7", name), HasSubstr(": 32 samples, 512 tokens"));
    EXPECT_THAT(inspect("exposure --iteration 2", name),
                AllOf(HasSubstr(": 16 samples, 256 tokens"), testing::Not(HasSubstr("left out"))));
  }
}

}  // namespace
}  // namespace weft
