// Runs weft-train as a user does: a small model on the CPU learns, evaluates, is killed, and goes
// on.
#include <gmock/gmock.h>

#include <csignal>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Training, LearnsEvaluatesAndSaves) {
  ASSERT_EQ(run(arguments("run", 60)), 0) << output();
  const auto lines = metrics("run");
  ASSERT_GE(lines.size(), 60U);
  EXPECT_NEAR(lines.front().at("lm_loss").get<double>(), std::log(64),
              0.2);  // uniform over the vocabulary; the padding has no part in it
  double last = 0;
  for (const auto& line : lines) last = line.value("lm_loss", last);
  EXPECT_LT(last, 3.4);
  const std::string log = output();
  for (const char* text :
       {"using world size: 1,", "------------------------ arguments ------------------------",
        "setting number of micro-batches to constant 4",
        "[before the start of training step] datetime: ",
        " iteration        1/      60 | consumed samples:            8 | elapsed time per "
        "iteration (ms): ",
        " | learning rate: 1.667E-03 | global batch size:     8 | lm loss: 4.1",
        "\ntime (ms) | forward-compute: ",
        "[Rank 0] (after 1 iterations) memory (MB) | allocated: ",
        " validation loss at iteration 10 | lm loss value: ",
        "saving checkpoint at iteration       5 to ",
        "  successfully saved checkpoint at iteration       5 to ",
        "[after training is done] datetime: ",
        " validation loss at the end of training for val data | lm loss value: ",
        " validation loss at the end of training for test data | lm loss value: "}) {
    EXPECT_THAT(log, HasSubstr(text));
  }
  EXPECT_EQ(tracker("run"), "60");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/run_manifest.json"));
}

TEST_F(Training, KilledAtAnyMomentItEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("undisturbed", 100)), 0) << output();
  std::mt19937 random(std::random_device{}());
  int num_kills = 0;
  for (int code = -1; code != 0;) {
    const pid_t child = start(arguments("killed", 100));
    const auto done = metrics("killed");
    const int64_t reached = done.empty() ? 0 : done.back().at("iteration").get<int64_t>();
    wait_for_iteration("killed", reached + static_cast<int64_t>(random() % 7), child);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    kill(child, SIGKILL);
    code = wait(child);
    ASSERT_THAT(code, testing::AnyOf(0, 128 + SIGKILL)) << output();
    if (code != 0 && ++num_kills > 30) break;
  }
  ASSERT_EQ(run(arguments("killed", 100)), 0) << output();
  EXPECT_GT(num_kills, 0);  // 100 steps and 20 synced saves never fit into the longest wait
  EXPECT_EQ(trajectory("killed"), trajectory("undisturbed")) << num_kills << " kills";
}

class ModelRun : public Training {
 protected:
  // Trains in one part and in two, "parts", which then refuses another model.
  void expect_goes_on_exactly(const Arguments& shape) {
    ASSERT_EQ(run(arguments("whole", 20, shape)), 0) << output();
    ASSERT_EQ(run(arguments("parts", 20, with(shape, {"--exit-interval", "7"}))), 0) << output();
    ASSERT_EQ(run(arguments("parts", 20, shape)), 0) << output();
    EXPECT_EQ(trajectory("parts"), trajectory("whole"));
    EXPECT_LT(metrics("whole").at(18).at("lm_loss").get<double>(), 3.9);
    EXPECT_EQ(run(arguments("parts", 30)), 2) << output();
  }
};

TEST_F(ModelRun, AModelWithoutBiasesAndWithAHeadOfItsOwnGoesOnExactly) {
  const Arguments shape = {"--untie-embeddings-and-output-weights", "--disable-bias-linear",
                           "--add-qkv-bias"};
  expect_goes_on_exactly(shape);
  EXPECT_THAT(output(), HasSubstr("untie_embeddings_and_output_weights is true in the checkpoint"));
  ASSERT_EQ(run(arguments("tied", 5)), 0) << output();
  EXPECT_EQ(run(arguments("tied", 10, shape)), 2) << output();
}

TEST_F(Training, RecomputationMayChangeOnResumeAndChangesNoBit) {
  ASSERT_EQ(run(arguments("whole", 15)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 15,
                          {"--recompute-granularity", "full", "--recompute-method", "block",
                           "--exit-interval", "7"})),
            0)
      << output();
  ASSERT_EQ(run(arguments("parts", 15, {"--checkpoint-activations"})), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
}

TEST_F(ModelRun, AModelOfLlamasShapeGoesOnExactly) {
  const Arguments shape = words(
      "--normalization RMSNorm --norm-epsilon 1e-6 --swiglu --ffn-hidden-size 48 "
      "--position-embedding-type rope --group-query-attention --num-query-groups 1 "
      "--disable-bias-linear --untie-embeddings-and-output-weights");
  expect_goes_on_exactly(shape);
  EXPECT_THAT(output(), HasSubstr("normalization is RMSNorm in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("glu_activation is swiglu in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("position_embedding_type is rope in the checkpoint and not"));
  EXPECT_THAT(output(), HasSubstr("num_query_groups is 1 in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("layernorm_epsilon is 1e-06 in the checkpoint and 1e-05 in"));
  ASSERT_EQ(run(arguments("gpt", 5)), 0) << output();
  EXPECT_EQ(run(arguments("gpt", 10, shape)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("normalization is not given in the checkpoint and RMSNorm in"));
}

TEST_F(Training, AModelOfBloomsShapeGoesOnExactly) {
  const Arguments shape = {"--embed-layernorm", "--position-embedding-type", "alibi"};
  Arguments first_part = with(shape, {"--exit-interval", "7"});
  ASSERT_EQ(run(arguments("whole", 20, shape)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, first_part)), 0) << output();
  ASSERT_EQ(run(arguments("parts", 20, shape)), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("whole"));
  EXPECT_EQ(run(arguments("parts", 30)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("embed_layernorm is true in the checkpoint and not given"));
  EXPECT_THAT(output(), HasSubstr("position_embedding_type is alibi in the checkpoint and not"));
}

TEST_F(Training, RampUpResumesInItsMiddle) {
  const Arguments samples = {"--train-samples", "200", "--rampup-batch-size", "2", "2", "60"};
  const auto by_samples = [&](const std::string& run, const Arguments& more = {}) {
    Arguments all = arguments(run);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == "--train-iters")
        all.erase(all.begin() + static_cast<long>(i), all.begin() + static_cast<long>(i) + 2);
      if (all[i] == "--lr-warmup-iters") all[i] = "--lr-warmup-samples";
    }
    all.insert(all.end(), samples.begin(), samples.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(by_samples("undisturbed")), 0) << output();
  ASSERT_EQ(run(by_samples("resumed", {"--exit-interval", "13"})), 0) << output();
  ASSERT_EQ(run(by_samples("resumed")), 0) << output();
  EXPECT_EQ(trajectory("resumed"), trajectory("undisturbed"));
  EXPECT_THAT(output(), HasSubstr("will use batch size rampup starting from global batch size 2 to "
                                  "global batch size 8 with "
                                  "batch size increments 2 over 60 samples."));
}

TEST_F(Training, BfloatAndMaskedLossAndParamsNormResumeToo) {
  const Arguments more = {"--bf16", "--eod-mask-loss", "--log-params-norm"};
  ASSERT_EQ(run(arguments("undisturbed", 12, more)), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" | params norm: "));
  Arguments stopped = with(arguments("resumed", 12, more), {"--exit-interval", "7"});
  ASSERT_EQ(run(stopped), 0) << output();
  ASSERT_EQ(run(arguments("resumed", 12, more)), 0) << output();
  EXPECT_EQ(trajectory("resumed"), trajectory("undisturbed"));
}

TEST_F(Training, AnotherScheduleOnResumeIsAUsageError) {
  ASSERT_EQ(run(arguments("run", 30, {"--exit-interval", "5"})), 0) << output();
  EXPECT_EQ(run(arguments("run", 30, {"--lr", "1e-3"})), 2);
  EXPECT_THAT(
      output(),
      HasSubstr(
          "AnnealingLR: class input value 0.001 and checkpoint value 0.005 for learning rate"));
}

TEST_F(Training, WeightsAloneGoOnWithAFreshOptimizerAndFinetuningStartsAnew) {
  ASSERT_EQ(run(arguments("run", 30, {"--no-save-optim", "--bf16", "--exit-interval", "10"})), 0)
      << output();
  ASSERT_EQ(run(arguments("run", 30, {"--bf16", "--exit-interval", "12"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" > weights only: iteration 10, fresh optimizer"));
  EXPECT_EQ(metrics("run").back().at("iteration"), 12);

  Arguments finetune = arguments("other", 5, {"--bf16", "--finetune"});
  *(std::find(finetune.begin(), finetune.end(), "--load") + 1) = (folder_ / "run").string();
  ASSERT_EQ(run(finetune), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" > weights only: iteration 0, fresh optimizer"));
  EXPECT_LT(metrics("other").front().at("lm_loss").get<double>(), 3.9);  // from scratch: 4.17
}

TEST_F(Training, SaysHowOftenItReadsItsData) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr("more than once")));
  const std::string tiny = write_tiny_dataset(folder_ / "two", 2);
  ASSERT_EQ(
      run(arguments("tiny", 20, {"--split", "100,0,0", "--eval-iters", "0", "--data-path", tiny})),
      0)
      << output();
  EXPECT_THAT(output(), HasSubstr(" > training reads data more than once: " + tiny + " in "));
}

TEST_F(Training, OnlyEvaluates) {
  ASSERT_EQ(run(arguments("run", 10)), 0) << output();
  ASSERT_EQ(run(arguments("run", 10, {"--skip-train"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("validation loss at the end of training for val data"));
  EXPECT_THAT(output(), Not(HasSubstr("| consumed samples:")));
}

TEST_F(Training, WrongFlagsAreAllReportedBeforeAnythingElse) {
  EXPECT_EQ(
      run(arguments("run", 30, {"--geglu", "--num-experts", "3", "--global-batch-size", "7"})), 2);
  const std::string log = output();
  EXPECT_THAT(log, HasSubstr("error: --geglu is not supported: give --glu-activation geglu"));
  EXPECT_THAT(log, HasSubstr("error: mixtures of experts are not supported (--num-experts)"));
  EXPECT_THAT(log,
              HasSubstr("error: --global-batch-size 7 is not a multiple of --micro-batch-size 2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Training, AMissingDatasetAndAForeignVocabularyHaveTheirExitCodes) {
  Arguments elsewhere = arguments("run");
  std::replace(elsewhere.begin(), elsewhere.end(), prefix_, std::string("/nowhere/at_all"));
  EXPECT_EQ(run(elsewhere), 4) << output();
  EXPECT_THAT(output(), HasSubstr("/nowhere/at_all"));
  EXPECT_EQ(run(arguments("run", 30, {"--vocab-size", "20"})), 3) << output();
  EXPECT_THAT(output(), HasSubstr("outside the vocabulary of 20"));
}

}  // namespace
}  // namespace weft
