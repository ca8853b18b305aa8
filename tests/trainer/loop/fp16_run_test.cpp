// Runs of weft-train in fp16, and runs that skip steps: killed and restarted while the loss scale
// falls and while it grows, resumed in other types, and ended where skipping does not help. Runs of
// 16 bits with an fp32 residual stream.
#include <gmock/gmock.h>

#include <csignal>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// The scale falls from 2^32 in the first steps, then grows every third step, until gradients
// overflow again.
const std::vector<std::string> kFp16 = {"--fp16", "--loss-scale-window", "3", "--save-interval",
                                        "3"};

std::vector<std::string> operator+(std::vector<std::string> all,
                                   const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(Training, InFp16SkipsStepsUntilTheLossScaleFits) {
  ASSERT_EQ(run(arguments("run", 60, kFp16)), 0) << output();
  const std::string log = output();
  EXPECT_THAT(log, HasSubstr("using float16 for parameters ..."));
  EXPECT_THAT(log, HasSubstr("| learning rate: 0.000E+00 | global batch size:     8 | loss scale: "
                             "4294967296.0 | number of skipped iterations:   1 | number of nan "
                             "iterations:   0 |"));
  EXPECT_THAT(log, HasSubstr("| loss scale: 2147483648.0 | number of skipped iterations:   1 |"));
  int num_skipped = 0, num_growths = 0, num_late_skips = 0;
  double scale = 4294967296.0, last_loss = 0;
  for (const auto& line : metrics("run")) {
    if (!line.contains("lm_loss")) continue;
    const bool skipped = line.at("skipped");
    num_skipped += skipped ? 1 : 0;
    num_late_skips += skipped && num_growths > 0 ? 1 : 0;
    num_growths += line.at("loss_scale").get<double>() > scale ? 1 : 0;
    scale = line.at("loss_scale");
    EXPECT_EQ(line.at("grad_norm").is_null(), skipped);
    last_loss = line.at("lm_loss");
  }
  EXPECT_GT(num_skipped, 5);
  EXPECT_GT(num_growths, 1);
  EXPECT_GT(num_late_skips, 0);
  EXPECT_LT(last_loss, 4.0);
}

TEST_F(Training, InFp16KilledAtAnyMomentItEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("undisturbed", 60, kFp16)), 0) << output();
  // While the scale falls, where it first fits, and while it grows and overflows again.
  for (const int64_t iteration : {4, 10, 16, 22, 31, 44}) {
    const pid_t child = start(arguments("killed", 60, kFp16));
    wait_for_iteration("killed", iteration, child);
    kill(child, SIGKILL);
    EXPECT_THAT(wait(child), AnyOf(0, 128 + SIGKILL)) << output();
  }
  ASSERT_EQ(run(arguments("killed", 60, kFp16)), 0) << output();
  EXPECT_EQ(trajectory("killed"), trajectory("undisturbed"));
}

// The steps at which the runs stop lie on both sides of overflows.
TEST_F(Training, InFp16StoppedAfterEachStepItEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("whole", 24, kFp16)), 0) << output();
  for (int i = 0; i < 24; i += 2)
    ASSERT_EQ(run(arguments("parts", 24, kFp16 + Arguments{"--exit-interval", "2"})), 0)
        << output();
  ASSERT_EQ(run(arguments("parts", 24, kFp16)), 0) << output();
  const auto steps = [&](const std::string& name) {
    std::vector<std::string> lines;
    for (nlohmann::json line : metrics(name)) {
      if (!line.contains("lm_loss")) continue;
      for (const char* key : {"elapsed_ms", "forward_ms", "backward_ms", "optimizer_ms",
                              "timestamp", "tokens_per_second", "tflops_per_device"})
        line.erase(key);
      lines.push_back(line.dump());
    }
    return lines;
  };
  EXPECT_EQ(steps("parts"), steps("whole"));
}

TEST_F(Training, GoesOnInAnotherTypeAndTellsChangesOfTheLossScale) {
  ASSERT_EQ(run(arguments("run", 40, kFp16 + Arguments{"--exit-interval", "20"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 40,
                          {"--fp16", "--loss-scale-window", "100", "--initial-loss-scale", "1024",
                           "--exit-interval", "21"})),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("--loss-scale-window was 3 when the checkpoint was saved and is "
                                  "100 now: the run goes on with the new value"));
  EXPECT_THAT(output(), HasSubstr("--initial-loss-scale was 4294967296.0 when the checkpoint was "
                                  "saved and is 1024.0 now: it counts at the beginning of a run"));
  ASSERT_EQ(run(arguments("run", 40, {"--bf16", "--exit-interval", "24"})), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("--fp16 was true when the checkpoint was saved and is false now"));
  ASSERT_EQ(run(arguments("run", 40, {"--exit-interval", "28"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 40, {"--fp16", "--initial-loss-scale", "1024"})), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr("--initial-loss-scale was")));
  for (const auto& line : metrics("run")) {
    if (line.value("iteration", 0) > 28 && line.contains("lm_loss")) {
      EXPECT_EQ(line.at("loss_scale"), 1024) << "fp32's checkpoint has none";
    }
    if (line.value("iteration", 0) > 20 && line.contains("lm_loss")) {
      EXPECT_LT(line.at("lm_loss").get<double>(), 4.3);
    }
  }
}

TEST_F(Training, WithAnFp32ResidualStreamGoesOnExactlyAndTellsWhereItBegins) {
  const Arguments dropout = {"--hidden-dropout", "0.1"};
  for (const char* type : {"--bf16", "--fp16"}) {
    const std::string whole = std::string("whole") + type, parts = std::string("parts") + type;
    const Arguments wide = Arguments{type, "--fp32-residual-connection"} + dropout;
    ASSERT_EQ(run(arguments(whole, 20, wide)), 0) << output();
    ASSERT_EQ(run(arguments(parts, 20, wide + Arguments{"--exit-interval", "7"})), 0) << output();
    ASSERT_EQ(run(arguments(parts, 20, wide)), 0) << output();
    EXPECT_THAT(output(), Not(HasSubstr("when the checkpoint was saved")));
    EXPECT_EQ(trajectory(parts), trajectory(whole));
  }
  const Arguments narrow = Arguments{"--bf16"} + dropout;
  ASSERT_EQ(run(arguments("narrow", 20, narrow + Arguments{"--exit-interval", "10"})), 0)
      << output();
  ASSERT_EQ(run(arguments("narrow", 20, narrow + Arguments{"--fp32-residual-connection"})), 0)
      << output();
  EXPECT_THAT(output(), HasSubstr("--fp32-residual-connection was false when the checkpoint was "
                                  "saved and is true now"));
  ASSERT_EQ(run(arguments("narrow whole", 20, narrow)), 0) << output();
  EXPECT_NE(trajectory("narrow"), trajectory("narrow whole"));
}

// The plan of an exchange between stages counts the type of the stream.
TEST_F(Training, AnFp32ResidualStreamIsTwiceAsLargeBetweenStages) {
  Arguments planned = {"--dry-run", "--verbose", "--pipeline-model-parallel-size", "2", "--bf16"};
  const Arguments large = {"--hidden-size", "512", "--num-attention-heads", "8"};
  ASSERT_EQ(run(arguments("plan", 30, planned + large)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("sends 0.03 MiB of a micro-batch to the next stage"));
  planned.push_back("--fp32-residual-connection");
  ASSERT_EQ(run(arguments("plan", 30, planned + large)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("sends 0.06 MiB of a micro-batch to the next stage"));
}

// A lower learning rate would change nothing.
TEST_F(Training, InFp16AConstantFactorThatIsTooLargeIsNamed) {
  EXPECT_EQ(run(arguments("run", 30, {"--fp16", "--loss-scale", "1e30"})), 11) << output();
  EXPECT_THAT(output(), HasSubstr("grad norm nan with loss scale 1e+30; training stops"));
  EXPECT_THAT(output(), HasSubstr("or resume with a lower --loss-scale, or with --skip-bad-steps"));
}

TEST_F(Training, SkipsBadStepsSoManyInARowAndThenEnds) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  const Arguments diverging = {
      "--lr", "1e30", "--override-lr-scheduler", "--skip-bad-steps", "3", "--save-interval", "1"};
  EXPECT_EQ(run(arguments("run", 30, diverging)), 11) << output();
  const std::string log = output();
  for (const char* text :
       {"; the weights stay as they are (1 in a row, --skip-bad-steps 3)\n",
        "; the weights stay as they are (3 in a row, --skip-bad-steps 3)\n",
        "| number of skipped iterations:   1 | number of nan iterations:   1 |",
        ", 4 such steps in a row; training stops and no checkpoint is written"}) {
    EXPECT_THAT(log, HasSubstr(text));
  }
  EXPECT_THAT(log, Not(HasSubstr("4 in a row")));
  const int64_t last = metrics("run").back().at("iteration");
  EXPECT_EQ(tracker("run"), std::to_string(last - 1)) << "skipped steps are saved as others are";
  // Those that a checkpoint has seen count on: the run does not get three more.
  EXPECT_EQ(run(arguments("run", 30, diverging)), 11) << output();
  EXPECT_EQ(metrics("run").back().at("iteration"), last);
  EXPECT_THAT(output(), HasSubstr(", 4 such steps in a row"));
}

}  // namespace
}  // namespace weft
