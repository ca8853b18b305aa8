// Runs whose sequences grow: the numbers of each step, resuming at any step, other micro-batches,
// and what goes together.
#include <gmock/gmock.h>

#include "tests/preprocess/inspect/inspect_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

class Curriculum : public InspectRun {
 protected:
  // 16 tokens are whole samples.
  static Arguments growing(const std::string& mode, const Arguments& more = {}) {
    return with(
        words("--curriculum-schedule-type fixed_linear --curriculum-min-difficulty 4 "
              "--curriculum-total-step 9 --curriculum-difficulty-step 4 --curriculum-mode " +
              mode),
        more);
  }
  std::vector<int64_t> numbers(const std::string& run, const char* name) const {
    std::vector<int64_t> all;
    for (const nlohmann::json& line : metrics(run)) {
      if (line.contains("lm_loss")) all.push_back(line.at(name));
    }
    return all;
  }
  // Runs to the end with a stop after every third step.
  void run_in_pieces(const std::string& name, int64_t num_iterations, Arguments more) {
    more.insert(more.end(), {"--exit-interval", "3"});
    for (int64_t i = 0; i < num_iterations; i += 3)
      ASSERT_EQ(run(arguments(name, num_iterations, more)), 0) << output();
  }
};

TEST_F(Curriculum, SequencesGrowAndLogsTellTheirLength) {
  ASSERT_EQ(run(arguments("run", 12, growing("truncate", {"--log-format", "megatron-ds"}))), 0)
      << output();
  // (t / 9) * 12 + 4, rounded down to a multiple of 4.
  EXPECT_THAT(numbers("run", "curriculum_seqlen"),
              testing::ElementsAre(4, 4, 8, 8, 8, 12, 12, 12, 16, 16, 16, 16));
  EXPECT_THAT(numbers("run", "consumed_samples"),
              testing::ElementsAre(8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96));
  EXPECT_THAT(numbers("run", "consumed_tokens"),
              testing::ElementsAre(32, 64, 128, 192, 256, 352, 448, 544, 672, 800, 928, 1056));
  EXPECT_THAT(output(), HasSubstr(" consumed tokens:          128 |"));
  EXPECT_THAT(output(), HasSubstr(" | curriculum seqlen:     8 | number of skipped iterations:"));
  EXPECT_THAT(output(), HasSubstr("will use a sequence length curriculum (fixed_linear, truncate) "
                                  "from 4 to 16 tokens, which iteration 9 reaches"));
}

TEST_F(Curriculum, StoppedAnywhereItEndsWithTheSameBits) {
  for (const std::string mode : {"truncate", "reshape"}) {
    for (const Arguments& more :
         {Arguments{"--attention-dropout", "0.1", "--hidden-dropout", "0.1"},
          Arguments{"--lr-decay-tokens", "900", "--eod-mask-loss"},
          Arguments{"--lr-decay-tokens", "900", "--lr-tokens-as-deepspeed"}}) {
      const std::string name = mode + more[1] + more.back();
      ASSERT_EQ(run(arguments(name, 15, growing(mode, more))), 0) << output();
      run_in_pieces(name + "p", 15, growing(mode, more));
      EXPECT_EQ(trajectory(name + "p"), trajectory(name));
    }
  }
}

// With a ramp-up of the batch size, in samples.
TEST_F(Curriculum, GoesTogetherWithARampUp) {
  for (const std::string mode : {"truncate", "reshape"}) {
    const auto ramp = [&](const std::string& name, const Arguments& more) {
      Arguments all = arguments(name, 1, growing(mode, {"--rampup-batch-size", "2", "2", "24"}));
      for (const auto& [flag, in_samples, value] :
           {std::array<std::string, 3>{"--train-iters", "--train-samples", "90"},
            {"--lr-warmup-iters", "--lr-warmup-samples", "5"}}) {
        const auto found = std::find(all.begin(), all.end(), flag);
        found[0] = in_samples;
        found[1] = value;
      }
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const std::string name = "ramp" + mode;
    ASSERT_EQ(run(ramp(name, {})), 0) << output();
    EXPECT_EQ(numbers(name, "global_batch_size").front(), 2);
    EXPECT_EQ(numbers(name, "global_batch_size").back(), 8);
    for (size_t i = 0; i < numbers(name, "iteration").size(); i += 3)
      ASSERT_EQ(run(ramp(name + "p", {"--exit-interval", "3"})), 0) << output();
    EXPECT_EQ(trajectory(name + "p"), trajectory(name));
  }
}

// The lengths and tokens of a step do not depend on how its batch is cut, so losses agree.
TEST_F(Curriculum, MicroBatchesDoNotChangeWhatAStepSees) {
  ASSERT_EQ(run(arguments("two", 12, growing("truncate"))), 0) << output();
  ASSERT_EQ(run(arguments("four", 12, growing("truncate", {"--micro-batch-size", "4"}))), 0);
  const auto two = metrics("two"), four = metrics("four");
  ASSERT_EQ(two.size(), four.size());
  for (size_t i = 0; i < two.size(); ++i) {
    if (!two[i].contains("lm_loss")) continue;
    EXPECT_EQ(two[i].at("consumed_tokens"), four[i].at("consumed_tokens"));
    const double loss = two[i].at("lm_loss");
    EXPECT_NEAR(four[i].at("lm_loss").get<double>(), loss, 1e-5 * loss);
  }
}

TEST_F(Curriculum, ReshapingCountsEachTokenOnce) {
  ASSERT_EQ(run(arguments("run", 12, growing("reshape"))), 0) << output();
  // 8 rows of 4 are two whole samples. 8 rows of 12 are 12 and then 4 new tokens in turns.
  EXPECT_THAT(numbers("run", "consumed_tokens"),
              testing::ElementsAre(32, 64, 128, 192, 256, 320, 384, 448, 576, 704, 832, 960));
}

TEST_F(Curriculum, EndsWithTheStepThatReachesItsTokens) {
  ASSERT_EQ(run(arguments("run", 1000, growing("truncate", {"--train-tokens", "540"}))), 0)
      << output();
  EXPECT_EQ(numbers("run", "consumed_tokens").back(), 544);
  EXPECT_EQ(tracker("run"), "8");
  // It is at its end; with more tokens it goes on.
  ASSERT_EQ(run(arguments("run", 1000, growing("truncate", {"--train-tokens", "540"}))), 0);
  EXPECT_EQ(tracker("run"), "8");
  ASSERT_EQ(run(arguments("run", 1000, growing("truncate", {"--train-tokens", "545"}))), 0);
  EXPECT_EQ(tracker("run"), "9");
}

TEST_F(Curriculum, ReadsDeepSpeedsFile) {
  const std::string file = (folder_ / "ds.json").string();
  write_file_atomically(file, R"({"train_batch_size": 8, "train_micro_batch_size_per_gpu": 2,
    "gradient_clipping": 1.0, "bf16": {"enabled": false}, "zero_optimization": {"stage": 0},
    "steps_per_print": 2000, "curriculum_learning": {"enabled": true, "curriculum_type": "seqlen",
    "min_difficulty": 4, "max_difficulty": 16, "schedule_type": "fixed_linear",
    "schedule_config": {"total_curriculum_step": 9, "difficulty_step": 4}}})");
  const Arguments by_file = {"--deepspeed", "--deepspeed_config", file};
  ASSERT_EQ(run(arguments("file", 12, by_file)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("\"steps_per_print\" of --deepspeed_config has no effect here"));
  ASSERT_EQ(run(arguments("flags", 12, growing("truncate"))), 0) << output();
  EXPECT_EQ(trajectory("file"), trajectory("flags"));
}

TEST_F(Curriculum, AnotherModeOnResumeIsRefused) {
  ASSERT_EQ(run(arguments("run", 6, growing("truncate"))), 0) << output();
  EXPECT_EQ(run(arguments("run", 12, growing("reshape"))), 2) << output();
  EXPECT_THAT(output(), HasSubstr("saved without --curriculum-mode reshape, after 48 samples of "
                                  "352 tokens in all, and this run is with it"));
}

// inspect_tokens_test.cpp compares what is shown with what was trained.
TEST_F(Curriculum, InspectShowsAndJudgesThePiecesThatWereTrained) {
  for (const std::string mode : {"truncate", "reshape"}) {
    ASSERT_EQ(run(arguments(mode, 40, growing(mode))), 0) << output();
    ASSERT_EQ(inspect_run(mode, {"--iteration", "6"}), 0) << output();
    EXPECT_EQ(samples()[0].at("ids").size(), 13U);
    const Arguments spikes =
        words(std::string(std::getenv("WEFT_BIN_DIR")) +
              "/weft-data inspect spikes --threshold 1 --run " + (folder_ / mode).string());
    ASSERT_EQ(wait(start_program(spikes)), 0) << output();
    // The losses of pieces are told, whether one of them stands out or none.
    EXPECT_THAT(output(),
                testing::AnyOf(HasSubstr("  sample "), HasSubstr("  no sample stands out")));
    EXPECT_THAT(output(), testing::Not(HasSubstr("are not told")));
    // Evaluations take whole samples.
    ASSERT_EQ(inspect_run(mode, {"--iteration", "10", "--split-name", "valid"}), 0) << output();
    EXPECT_EQ(samples()[0].at("ids").size(), 17U);
  }
}

// The iterations before the curriculum took whole samples, of the same datasets.
TEST_F(Curriculum, InspectKnowsWhereARunWasResumedWithIt) {
  ASSERT_EQ(run(arguments("run", 12, {"--exit-interval", "6"})), 0) << output();
  ASSERT_EQ(run(arguments("run", 12, growing("truncate"))), 0) << output();
  EXPECT_THAT(output(), HasSubstr("--curriculum-schedule-type was"));
  ASSERT_EQ(inspect_run("run", {"--iterations", "6", "7"}), 0) << output();
  EXPECT_EQ(samples().front().at("ids").size(), 17U);
  EXPECT_EQ(samples().back().at("ids").size(), 13U);
}

}  // namespace
}  // namespace weft
