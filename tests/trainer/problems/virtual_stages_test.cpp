// The flags of interleaved pipeline stages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/command_line/command_lines.h"

namespace weft {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

// 12 layers on 8 ranks, in pipelines of 4 or 2.
std::vector<std::string> problems_of_interleaved(const std::string& flags) {
  Config config =
      parse_arguments(words(kGood + "--num-layers 12 --micro-batch-size 1 " + flags)).config;
  config.world_size = 8;
  return problems_of(config);
}

TEST(Config, VirtualStagesAreThoseOfMegatronsFlags) {
  const std::string four = "--pipeline-model-parallel-size 4 --global-batch-size 16 ";
  const auto stages_of = [](const std::string& flags) {
    return parse_arguments(words(kGood + "--num-layers 12 " + flags)).config.num_virtual_stages();
  };
  EXPECT_EQ(stages_of(four), 1);
  EXPECT_EQ(stages_of(four + "--num-layers-per-virtual-pipeline-stage 1"), 3);
  EXPECT_EQ(stages_of(four + "--num-layers-per-virtual-pipeline-stage 3"), 1);
  EXPECT_EQ(stages_of(four + "--num-virtual-stages-per-pipeline-rank 3"), 3);
  for (const char* flags :
       {"--num-layers-per-virtual-pipeline-stage 1", "--num-virtual-stages-per-pipeline-rank 3",
        "--num-virtual-stages-per-pipeline-rank 2 --pp-partition-method type:transformer|embedding",
        "--num-virtual-stages-per-pipeline-rank 2 --pp-partition-method 0,2,2,2,2,2,2,0",
        "--num-layers-per-virtual-pipeline-stage 1 "
        "--microbatch-group-size-per-virtual-pipeline-stage 8"}) {
    EXPECT_THAT(problems_of_interleaved(four + flags), IsEmpty()) << flags;
  }
}

TEST(Config, VirtualStagesThatCannotBeSayWhatWouldWork) {
  const std::string two = "--pipeline-model-parallel-size 2 ",
                    four = "--pipeline-model-parallel-size 4 --global-batch-size 16 ",
                    layers = "--num-layers-per-virtual-pipeline-stage ",
                    stages = "--num-virtual-stages-per-pipeline-rank ",
                    group = "--microbatch-group-size-per-virtual-pipeline-stage ";
  for (const auto& [flags, expected] :
       {std::pair<std::string, std::string>{four + layers + "1 " + stages + "3",
                                            "cannot be set at the same time"},
        {four + layers + "2",
         "number of layers per pipeline stage must be divisible by number of layers per virtual "
         "pipeline stage: --num-layers 12 over --pipeline-model-parallel-size 4 are 3, not"},
        {"--global-batch-size 16 " + stages + "2",
         "2 virtual stages need --pipeline-model-parallel-size 2 or more"},
        {four + stages + "2",
         "--num-layers 12 is not a multiple of --pipeline-model-parallel-size 4 times 2 virtual "
         "stages: change one of them, or give --pp-partition-method type:transformer"},
        {four + layers + "1 --pp-partition-method type:transformer",
         "give --num-virtual-stages-per-pipeline-rank"},
        {four + group + "4", "needs interleaved stages"},
        {four + stages + "3 " + group + "3", "should not be less than"},
        {four + stages + "3 " + group + "9",
         "should range in [PP=4, M=8], and a batch of 16 samples has 8 micro-batches"},
        {"--pipeline-model-parallel-size 4 --global-batch-size 20 " + stages + "3",
         "the last of the 10 of a batch of 20 samples would be a group of 2, fewer than "
         "--pipeline-model-parallel-size 4, which introduces dependency bubbles; give "
         "--microbatch-group-size-per-virtual-pipeline-stage 5, or another batch size"},
        {"--pipeline-model-parallel-size 4 --global-batch-size 28 " + stages + "3",
         "give --microbatch-group-size-per-virtual-pipeline-stage 7, or another batch size"},
        {two + stages + "2 --global-batch-size 24 --rampup-batch-size 16 4 100",
         "the last of the 5 of a batch of 20 samples would be a group of 1"}}) {
    EXPECT_THAT(problems_of_interleaved(flags), Contains(HasSubstr(expected))) << flags;
  }
}

}  // namespace
}  // namespace weft
