#include "preprocess/run/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunIdentity : public ::testing::Test {
 protected:
  // The identity of a run on a file of this content.
  std::string identity_on(const std::string& content, const PipelineConfig& config = {}) const {
    const std::string path = folder_.path() / "a.jsonl";
    std::ofstream(path) << content;
    const std::atomic<bool> cancelled{false};
    const Inputs inputs = make_inputs({path});
    inputs[0]->look(cancelled, {});
    return run_identity(config, TokenType::kUInt16, inputs);
  }
  TemporaryFolder folder_;
};

// It had said that the input had changed, which no process had seen.
TEST_F(RunIdentity, RanksThatSeeAnotherFileUnderTheNameAreToldSo) {
  const std::string first = identity_on("{}\n"), other = identity_on("{} \n");
  EXPECT_THAT(difference(first, other, Compared::kRanks).text,
              AllOf(HasSubstr("a.jsonl' is another file there: rank 0 has 3 bytes, changed "),
                    HasSubstr("that rank has 4 bytes, changed "), Not(HasSubstr("has changed"))));
  EXPECT_THAT(difference(first, other).text, HasSubstr("a.jsonl' has changed"));
}

TEST_F(RunIdentity, SaysWhichOptionDiffersAndHow) {
  PipelineConfig config;
  const std::string first = identity_on("{}\n", config);
  config.rules.append_eod = true;
  const IdentityDifference differs = difference(first, identity_on("{}\n", config));
  EXPECT_THAT(differs.text, HasSubstr("--append-eod: was false, is true"));
  EXPECT_FALSE(differs.same_options);
  EXPECT_TRUE(differs.same_inputs);
  EXPECT_EQ(difference("{}", first).text, "made by another version of weft-data");
}

}  // namespace
}  // namespace weft
