// Options of Megatron that change what a run trains: each from its first step over a restart.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

class MegatronFeatures : public Training {
 protected:
  static constexpr const char* kPi = "3.14159265358979323846";

  // Runs 12 steps at once, and again with a restart after step 7; returns the steps' lines.
  std::vector<nlohmann::json> steps_of(const Arguments& more) {
    EXPECT_EQ(run(arguments("whole", 12, more)), 0) << output();
    EXPECT_EQ(run(arguments("parts", 12, with(more, {"--exit-interval", "7"}))), 0) << output();
    EXPECT_EQ(tracker("parts"), "7");
    EXPECT_EQ(run(arguments("parts", 12, more)), 0) << output();
    EXPECT_EQ(trajectory("parts"), trajectory("whole"));
    std::vector<nlohmann::json> steps;
    for (const nlohmann::json& line : metrics("whole")) {
      if (line.contains("lm_loss") || line.contains("not_trained")) steps.push_back(line);
    }
    return steps;
  }
};

// The rates of OptimizerParamScheduler [Megatron-LM core/optimizer_param_scheduler.py], computed
// here from its formulas, step by step: a batch has 8 samples.
TEST_F(MegatronFeatures, WsdRisesStaysAndDecays) {
  const auto share_of = [](const std::string& style, double r) {
    if (style == "linear") return 1 - r;
    if (style == "cosine") return 0.5 * (std::cos(std::stod(kPi) * r) + 1);
    if (style == "minus_sqrt") return 1 - std::sqrt(r);
    return 2 * std::pow(0.5, r) - 1;
  };
  for (const std::string style : {"exponential", "linear", "cosine", "minus_sqrt"}) {
    std::filesystem::remove_all(folder_ / "whole");
    std::filesystem::remove_all(folder_ / "parts");
    const auto steps = steps_of({"--lr-decay-style", "WSD", "--lr-wsd-decay-style", style,
                                 "--lr-wsd-decay-iters", "5", "--lr-warmup-init", "1e-3"});
    ASSERT_EQ(steps.size(), 12U);
    for (int i = 0; i < 12; ++i) {
      // 3 steps of warm-up from 1e-3 to 5e-3, then that, then 5 steps down to 5e-4 at step 12.
      const double expected = i <= 3   ? 1e-3 + (5e-3 - 1e-3) * i / 3
                              : i <= 7 ? 5e-3
                                       : 5e-4 + share_of(style, (i - 7) / 5.0) * (5e-3 - 5e-4);
      EXPECT_NEAR(steps[static_cast<size_t>(i)]["learning_rate"].get<double>(), expected, 1e-15)
          << style << " " << i;
    }
  }
  EXPECT_EQ(run(arguments("whole", 12, {"--lr-decay-style", "WSD"})), 2);
  EXPECT_THAT(output(), HasSubstr("--lr-decay-style WSD needs --lr-wsd-decay-iters"));
  EXPECT_EQ(run(arguments("whole", 20, {"--lr-decay-style", "WSD", "--lr-wsd-decay-iters", "6"})),
            2);
  EXPECT_THAT(output(), HasSubstr("do not match"));
}

TEST_F(MegatronFeatures, WeightDecayThatGrowsChangesTheRun) {
  const auto growing = steps_of({"--weight-decay-incr-style", "cosine", "--start-weight-decay", "0",
                                 "--end-weight-decay", "20"});
  ASSERT_EQ(run(arguments("none", 12, {"--weight-decay", "0"})), 0) << output();
  const auto none = metrics("none");
  // The first two rates of decay are 0 and 20 * (1 - cos(pi / 12)) / 2; the warm-up's first is 0.
  EXPECT_EQ(growing[1]["lm_loss"], none[1]["lm_loss"]);
  EXPECT_NE(growing[11]["lm_loss"], metrics("none")[11]["lm_loss"]);
  ASSERT_EQ(run(arguments("usual", 12, {"--weight-decay", "0.3"})), 0) << output();
  ASSERT_EQ(run(arguments("constant", 12,
                          {"--weight-decay", "0", "--weight-decay-incr-style", "linear",
                           "--start-weight-decay", "0.3", "--end-weight-decay", "0.3"})),
            0)
      << output();
  EXPECT_EQ(trajectory("constant"), trajectory("usual"));
}

TEST_F(MegatronFeatures, TheWordEmbeddingHasARateOfItsOwn) {
  const auto own = steps_of({"--decoupled-lr", "1e-2", "--decoupled-min-lr", "1e-3",
                             "--untie-embeddings-and-output-weights"});
  EXPECT_THAT(read_file(folder_ / "out"), HasSubstr("decoupled learning rate: 1.000000E-03"));
  ASSERT_EQ(run(arguments("usual", 12, {"--untie-embeddings-and-output-weights"})), 0) << output();
  EXPECT_EQ(own[1]["lm_loss"], metrics("usual")[1]["lm_loss"]) << "the first update has rate 0";
  EXPECT_NE(own[11]["lm_loss"], metrics("usual")[11]["lm_loss"]);
  // With the rates of the others it is the same run.
  ASSERT_EQ(run(arguments("equal", 12,
                          {"--decoupled-lr", "5e-3", "--untie-embeddings-and-output-weights"})),
            0)
      << output();
  EXPECT_EQ(trajectory("equal"), trajectory("usual"));
}

TEST_F(MegatronFeatures, IterationsThatAreSkippedConsumeTheirSamples) {
  const auto steps = steps_of({"--iterations-to-skip", "3", "--skip-train-iteration-range", "6-8"});
  ASSERT_EQ(steps.size(), 12U);
  for (int i = 1; i <= 12; ++i) {
    const nlohmann::json& step = steps[static_cast<size_t>(i - 1)];
    EXPECT_EQ(step["iteration"], i);
    EXPECT_EQ(step["consumed_samples"], 8 * i);
    EXPECT_EQ(step.contains("not_trained"), i == 3 || (i >= 6 && i <= 8)) << i;
  }
  const auto manifest = nlohmann::json::parse(read_file(folder_ / "whole/run_manifest.json"));
  EXPECT_EQ(manifest.at("untrained_iterations").dump(), "[[3,3],[6,8]]");
  // As in Megatron the learning rate waits.
  EXPECT_EQ(steps[4]["learning_rate"], 5e-3) << "3 of 3 steps of warm-up";
  ASSERT_EQ(run(arguments("usual", 12)), 0) << output();
  EXPECT_EQ(steps[1]["lm_loss"], metrics("usual")[1]["lm_loss"]);
  EXPECT_EQ(run(arguments("none", 12, {"--skip-train-iteration-range", "8-6"})), 2);
  EXPECT_THAT(output(), HasSubstr("--skip-train-iteration-range 8-6: give the first and the last"));
  EXPECT_EQ(run(arguments("none", 12, {"--iterations-to-skip", "0"})), 2);
  EXPECT_THAT(output(), HasSubstr("--iterations-to-skip 0: give numbers of iterations, from 1 on"));
}

// A micro-batch has two samples. Where they hold different numbers of ends of documents, the mean
// over tokens is not the mean of the micro-batches' means.
TEST_F(MegatronFeatures, ALossPerTokenDiffersOnlyWhereTokensAreMasked) {
  ASSERT_EQ(run(arguments("usual", 12)), 0) << output();
  ASSERT_EQ(run(arguments("same", 12, {"--calculate-per-token-loss"})), 0) << output();
  EXPECT_EQ(trajectory("same"), trajectory("usual"));
  ASSERT_EQ(run(arguments("masked", 12, {"--eod-mask-loss"})), 0) << output();
  const auto by_token = steps_of({"--eod-mask-loss", "--calculate-per-token-loss"});
  EXPECT_NE(by_token[0]["lm_loss"], metrics("masked")[0]["lm_loss"]);
  // With one micro-batch in a step both are one.
  const Arguments one = {"--micro-batch-size", "8", "--eod-mask-loss"};
  ASSERT_EQ(run(arguments("one", 5, one)), 0) << output();
  EXPECT_NEAR(metrics("one")[0]["lm_loss"].get<double>(), by_token[0]["lm_loss"].get<double>(),
              1e-6);
}

TEST_F(MegatronFeatures, AnEpochIsTrainedWhole) {
  Arguments all = arguments("run", 1, {"--split", "100,0,0", "--eval-iters", "0"});
  const auto at = std::find(all.begin(), all.end(), "--train-iters");
  all.erase(at, at + 2);
  all = with(all, {"--train-epochs", "2", "--exit-interval", "1"});
  all.erase(std::find(all.begin(), all.end(), "--lr-warmup-iters"),
            std::find(all.begin(), all.end(), "--lr-warmup-iters") + 2);
  ASSERT_EQ(run(all), 0) << output();
  const std::string log = output();
  const size_t begin = log.find("samples an epoch, ");
  ASSERT_NE(begin, std::string::npos) << log;
  EXPECT_THAT(log.substr(begin, 60), HasSubstr("samples an epoch, 2 epochs in this run"));
}

TEST_F(MegatronFeatures, MadeUpDataTrainsAShape) {
  Arguments all = arguments("run", 4, {"--mock-data", "--tokenizer-type", "NullTokenizer"});
  const auto at = std::find(all.begin(), all.end(), "--data-path");
  all.erase(at, at + 2);
  ASSERT_EQ(run(all), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" > vocabulary of 65 tokens from"));
  EXPECT_THAT(output(), HasSubstr(" > documents end with token 64, that of NullTokenizer"));
  EXPECT_EQ(metrics("run").front()["iteration"], 1);
  ASSERT_EQ(run(arguments("both", 4, {"--mock-data"})), 2);
  EXPECT_THAT(output(), HasSubstr("--mock-data and --data-path exclude each other"));
}

TEST_F(MegatronFeatures, TheShapeMayBeThatOfTheCheckpoint) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  const Arguments other = {"--num-layers", "3", "--hidden-size", "64"};
  ASSERT_EQ(run(arguments("run", 8, with(other, {"--override-opt_param-scheduler"}))), 2)
      << "it is another model";
  ASSERT_EQ(
      run(arguments("run", 8,
                    with(other, {"--override-opt_param-scheduler", "--use-checkpoint-args"}))),
      0)
      << output();
  EXPECT_EQ(metrics("run").back()["iteration"], 8);
}

TEST_F(MegatronFeatures, ASaveRemovesTheOneBeforeItUnlessItIsRetained) {
  for (const Arguments& more : {Arguments{}, Arguments{"--async-save"}}) {
    ASSERT_EQ(run(arguments("run", 12,
                            with(more, {"--save-interval", "2", "--save-retain-interval", "4"}))),
              0)
        << output();
    for (int i = 2; i <= 12; i += 2) {
      char name[32];
      std::snprintf(name, sizeof name, "run/iter_%07d", i);
      EXPECT_EQ(std::filesystem::exists(folder_ / name), i % 4 == 0) << i;
    }
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(MegatronFeatures, ABatchMayGrowInARunOfIterations) {
  ASSERT_EQ(run(arguments("run", 6, {"--rampup-batch-size", "4", "4", "16"})), 0) << output();
  EXPECT_EQ(metrics("run")[0]["global_batch_size"], 4);
  EXPECT_EQ(metrics("run").back()["iteration"], 6);
}

// The first step of a process is logged, whatever the interval.
TEST_F(MegatronFeatures, TheFirstStepIsLoggedAndMetricsTellTheTime) {
  ASSERT_EQ(run(arguments("run", 4, {"--log-interval", "100", "--log-memory-to-tensorboard"})), 0)
      << output();
  EXPECT_THAT(output(), HasSubstr(" iteration        1/       4 |"));
  const nlohmann::json step = metrics("run").front();
  EXPECT_GT(step["tokens_per_second"].get<double>(), 0);
  EXPECT_GT(step["tflops_per_device"].get<double>(), 0);
  EXPECT_GT(step["memory_bytes"].get<int64_t>(), 0);
  EXPECT_EQ(step["timestamp"].get<std::string>().size(), 24U);
  std::string events;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/tb"))
    events += read_file(entry.path());
  for (const char* tag : {"throughput", "tokens-per-second", "mem-allocated-bytes"})
    EXPECT_THAT(events, HasSubstr(tag));
}

}  // namespace
}  // namespace weft
