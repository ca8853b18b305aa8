// Runs of weft-train with --profile-steps and --measure-device: their numbers are those of runs
// without, and their profiles account for the whole step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/mpirun_ranks.h"
#include "tests/trainer/profile_of_run.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ProfiledRun : public Ranks {
 protected:
  json profiles(const std::string& run, const std::string& steps) const {
    return profiles_of_run(folder_ / run, steps);
  }
  std::string cache() const { return (folder_ / "cache/gemm-algorithms").string(); }
};

TEST_F(ProfiledRun, TrainsTheSameBitsAndTellsTheWholeStep) {
  ASSERT_EQ(run(arguments("plain", 12)), 0) << output();
  const Arguments measure =
      words("--measure-device --measure-device-seconds 0.05 --device cpu --gemm-algorithm-cache " +
            cache());
  ASSERT_EQ(run(measure), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("written to " + (folder_ / "cache/device-ceilings.json").string()));
  ASSERT_EQ(
      run(arguments("profiled", 12, {"--profile-steps", "6:9", "--gemm-algorithm-cache", cache()})),
      0)
      << output();
  EXPECT_EQ(trajectory("profiled"), trajectory("plain"));
  EXPECT_THAT(output(), HasSubstr("profile of iterations 6 to 9 on CPU ("));
  EXPECT_THAT(output(), HasSubstr("recording costs "));
  const json ranks = profiles("profiled", "6_9");
  ASSERT_EQ(ranks.size(), 1U);
  const json& rank = ranks[0];
  EXPECT_EQ(rank.at("num_steps"), 4);
  expect_whole_step(rank);
  // There are 4 micro-batches of 2 layers.
  const json qkv = line_of(rank, "linear_forward N=32 O=96 I=32 fp32");
  EXPECT_EQ(qkv.at("calls"), 8);
  EXPECT_EQ(qkv.at("flops"), 8 * 2.0 * 32 * 96 * 32);
  EXPECT_GT(qkv.at("ceiling_ms"), 0);
  EXPECT_EQ(line_of(rank, "attention_forward B=2 T=16 H=2 D=16 fp32").at("calls"), 8);
  EXPECT_EQ(line_of(rank, "cross_entropy N=32 V=128 fp32").at("calls"), 4);
  EXPECT_EQ(line_of(rank, "adamw").at("calls"), 1);
}

TEST_F(ProfiledRun, Fp8HasLinesForProductsAndForScales) {
  ASSERT_EQ(run(arguments("fp8", 8,
                          {"--bf16", "--fp8-format", "hybrid", "--fp8-recipe", "delayed",
                           "--profile-steps", "5:6"})),
            0)
      << output();
  const json rank = profiles("fp8", "5_6")[0];
  expect_whole_step(rank);
  EXPECT_GT(line_of(rank, "fp8_product M=").at("flops"), 0);
  // One update for the scales of forward, another one for those of gradients.
  EXPECT_EQ(line_of(rank, "update_fp8_scaling n=16 ").at("calls"), 1);
  EXPECT_EQ(line_of(rank, "update_fp8_scaling n=8 ").at("calls"), 1);
}

TEST_F(ProfiledRun, RanksReportTheirCollectives) {
  const Arguments topology = {"--tensor-model-parallel-size", "2", "--sequence-parallel",
                              "--use-distributed-optimizer"};
  ASSERT_EQ(run_ranks(4, arguments("plain", 8, topology)), 0) << output();
  ASSERT_EQ(run_ranks(4, arguments("profiled", 8, with(topology, {"--profile-steps", "3:4"}))), 0)
      << output();
  EXPECT_EQ(trajectory("profiled"), trajectory("plain"));
  EXPECT_THAT(output(), HasSubstr("profile of 4 ranks: "));
  const json ranks = profiles("profiled", "3_4");
  ASSERT_EQ(ranks.size(), 4U);
  for (const json& rank : ranks) {
    expect_whole_step(rank);
    for (const char* collective : {"all_gather", "reduce_scatter", "all_reduce"}) {
      const json one = line_of(rank, collective);
      ASSERT_FALSE(one.empty()) << collective;
      EXPECT_TRUE(one.at("collective"));
      EXPECT_GT(one.at("gb_per_s"), 0);
      EXPECT_EQ(one.at("exposed_ms"), one.at("ms")) << "a CPU does one thing after the other";
    }
  }
}

TEST_F(ProfiledRun, IsToldEvenWhenTheRunStopsBeforeTheLastStep) {
  ASSERT_EQ(run(arguments("stopped", 12, {"--profile-steps", "3:9", "--exit-interval", "5"})), 0)
      << output();
  EXPECT_THAT(output(), HasSubstr("profile of iterations 3 to 5 "));
  EXPECT_EQ(profiles("stopped", "3_5")[0].at("num_steps"), 3);
  // The next process resumes at iteration 5: the range has begun in the past.
  EXPECT_EQ(run(arguments("stopped", 12, {"--profile-steps", "3:7", "--exit-interval", "8"})), 0)
      << output();
  EXPECT_THAT(output(),
              HasSubstr("WARNING: --profile-steps 3:7 begins before iteration 6, where this "
                        "run goes on: nothing is profiled"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "stopped/profile_3_7.json"));
  EXPECT_EQ(run(arguments("stopped", 12, {"--profile-steps", "10:11"})), 0) << output();
  EXPECT_EQ(profiles("stopped", "10_11")[0].at("num_steps"), 2);
}

TEST_F(ProfiledRun, RefusesRangesThatAreNone) {
  for (const char* steps : {"5", "5:", ":5", "0:3", "5:4", "a:b", "1:2:3", "1:1001"}) {
    EXPECT_EQ(run(arguments("refused", 2000, {"--profile-steps", steps})), 2) << steps << output();
    EXPECT_THAT(output(), HasSubstr(std::string("--profile-steps ") + steps + ": give the first"));
  }
  EXPECT_EQ(run(arguments("refused", 12, {"--profile-steps", "10:13"})), 2) << output();
  EXPECT_THAT(output(), HasSubstr("--profile-steps 10:13 goes beyond --train-iters 12"));
  const Arguments megatrons = {"--profile", "--profile-step-start", "3", "--profile-step-end", "4"};
  EXPECT_EQ(run(arguments("refused", 12, megatrons)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("--profile-step-start is not supported: give --profile-steps "
                                  "FIRST:LAST, which profiles every rank"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
}

TEST_F(ProfiledRun, RefusesToMeasureACpuWithSeveralRanks) {
  EXPECT_NE(
      run_ranks(2, {"--measure-device", "--device", "cpu", "--gemm-algorithm-cache", cache()}), 0);
  EXPECT_THAT(output(), HasSubstr("several ranks would measure each other"));
}

}  // namespace
}  // namespace weft
