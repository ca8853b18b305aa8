// Runs of weft-train whose layers have fp8 products: killed and restarted, resumed with other
// scales or in bf16 and back, planned and profiled.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class Fp8Training : public Training {
 protected:
  static inline const Arguments kFp8 = {"--bf16", "--fp8-format", "hybrid"};
  static inline const Arguments kHistory = {
      "--fp8-amax-history-len", "4", "--fp8-amax-compute-algo", "max",
      "--fp8-margin",           "1", "--hidden-dropout",        "0.1"};
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    for (const auto& line : metrics(run)) {
      if (line.contains("lm_loss")) losses.push_back(line.at("lm_loss"));
    }
    return losses;
  }
};

TEST_F(Fp8Training, KilledAtAnyMomentItEndsWithTheSameBits) {
  for (const Arguments& scales : {kHistory, Arguments{"--fp8-recipe", "tensorwise"}}) {
    const Arguments all = with(with(kFp8, scales), {"--save-interval", "2"});
    const std::string whole = "whole" + scales[1], killed = "killed" + scales[1];
    ASSERT_EQ(run(arguments(whole, 20, all)), 0) << output();
    for (const int64_t iteration : {3, 8, 13}) {
      const pid_t child = start(arguments(killed, 20, all));
      wait_for_iteration(killed, iteration, child);
      kill(child, SIGKILL);
      EXPECT_THAT(wait(child), AnyOf(0, 128 + SIGKILL)) << output();
    }
    ASSERT_EQ(run(arguments(killed, 20, all)), 0) << output();
    EXPECT_EQ(trajectory(killed), trajectory(whole));
    EXPECT_LT(losses(whole).back(), 4.0) << "it learns";
  }
}

TEST_F(Fp8Training, GoesOnInBf16AndBackAndSaysSo) {
  const auto run_until = [&](const std::string& iteration, const Arguments& more) {
    return run(arguments("run", 40, with(more, {"--exit-interval", iteration})));
  };
  ASSERT_EQ(run_until("10", kFp8), 0) << output();
  ASSERT_EQ(run_until("20", {"--bf16"}), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--fp8-format was \"hybrid\" when the checkpoint was saved"));
  ASSERT_EQ(run_until("30", with(kFp8, kHistory)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--fp8-format was"));
  ASSERT_EQ(run_until("34", with(kFp8, {"--fp8-amax-history-len", "2"})), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("--fp8-amax-history-len was 4 when the checkpoint was saved and is 2 "
                        "now: the histories of all fp8 scales begin anew"));
  ASSERT_EQ(run_until("37", with(kFp8, {"--fp8-recipe", "tensorwise"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--fp8-recipe was \"delayed\" when the checkpoint was saved"));
  ASSERT_EQ(run(arguments("run", 40, kFp8)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--fp8-recipe was \"tensorwise\" when the checkpoint was saved"));
  ASSERT_EQ(run(arguments("bf16", 40, {"--bf16"})), 0) << output();
  const std::vector<double> got = losses("run"), wanted = losses("bf16");
  ASSERT_EQ(got.size(), 40U);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 0.03 * wanted[i]) << i;
}

TEST_F(Fp8Training, LogsHowFarItsProductsAreOff) {
  const Arguments shadow = with(kFp8, {"--fp8-shadow-interval", "3"});
  ASSERT_EQ(run(arguments("plain", 7, kFp8)), 0) << output();
  ASSERT_EQ(run(arguments("shadow", 7, shadow)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("fp8 errors at iteration 3: layer "));
  EXPECT_THAT(output(), HasSubstr("fp8 errors at iteration 6: layer "));
  EXPECT_EQ(losses("shadow"), losses("plain")) << "no bit depends on it";
  for (const auto& line : metrics("shadow")) {
    const int64_t iteration = line.at("iteration");
    ASSERT_EQ(line.contains("fp8_errors"), line.contains("lm_loss") && iteration % 3 == 0) << line;
    if (!line.contains("fp8_errors")) continue;
    for (const char* name : {"qkv", "proj", "fc1", "fc2"}) {
      ASSERT_EQ(line["fp8_errors"].at(name).size(), 2U) << "layers";
      for (const double error : line["fp8_errors"].at(name)) EXPECT_NEAR(error, 0.035, 0.03);
    }
  }
}

TEST_F(Fp8Training, IsPlannedWithItsCopiesOfTheWeightsAndProfiled) {
  ASSERT_EQ(run(arguments("plan", 30, with(kFp8, {"--dry-run", "--verbose"}))), 0) << output();
  const std::string plan = output();
  EXPECT_THAT(plan, HasSubstr("  fp8_format"));
  const Arguments a100 = {"--dry-run", "--device-profile", "a100-80gb", "--kv-channels", "64"};
  EXPECT_EQ(run(arguments("plan", 30, with(kFp8, a100))), 2) << output();
  EXPECT_THAT(output(), HasSubstr("compute capability 8.9"));
  ASSERT_EQ(run(arguments("run", 4, with(kFp8, {"--profile-steps", "2:3"}))), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" fp8_product M=32 N=96 K=32 e4m3"));
  EXPECT_THAT(output(), HasSubstr(" quantize N=32 C=128 e5m2"));
  EXPECT_THAT(output(), Not(HasSubstr(" linear_forward N=32 O=96")));
}

}  // namespace
}  // namespace weft
