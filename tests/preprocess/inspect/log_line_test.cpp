// Lines of logs, as people paste them.
#include "preprocess/inspect/foreign_runs/log_line.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

LogLine training(int64_t iteration, int64_t consumed, int64_t batch,
                 std::optional<int64_t> num_iterations = {}, std::optional<int64_t> tokens = {}) {
  return {.iteration = iteration,
          .is_validation = false,
          .consumed_samples = consumed,
          .global_batch_size = batch,
          .consumed_tokens = tokens,
          .num_iterations = num_iterations};
}

TEST(LogLine, TellsIterationSamplesAndBatchInThreeStyles) {
  const std::string of_2021 =
      " iteration      200/    1000 | consumed samples:          800 | elapsed time per iteration "
      "(ms): 430.0 | learning rate: 1.342E-04 | global batch size:     4 | lm loss: 7.399415E+00 | "
      "loss scale: 16384.0 | grad norm: 2.918 | number of skipped iterations:   0 | number of nan "
      "iterations:   0 |";
  EXPECT_THAT(parse_log_lines(of_2021), ElementsAre(training(200, 800, 4, 1000)));
  const std::string of_2024 =
      " [2024-07-16 22:14:01] iteration       26/73242187 | consumed samples:           52 | elapsed "
      "time per iteration (ms): 86.5 | throughput per GPU (TFLOP/s/GPU): 1.5 | learning rate: "
      "1.704000E-08 | global batch size:     2 | lm loss: 1.086217E+01 |";
  EXPECT_THAT(parse_log_lines(of_2024), ElementsAre(training(26, 52, 2, 73242187)));
  const std::string of_deepspeed =
      " iteration    11448/  115311 | consumed samples:      4865872 | consumed tokens:   9965305856 "
      "| elapsed time per iteration (s): 106.43 | learning rate: 6.000E-05 | global batch size:  2048 "
      "| lm loss: 2.3E+00 | grad norm: 0.152 | samples per second: 19.24 | TFLOPs: 131.77 |";
  EXPECT_THAT(parse_log_lines(of_deepspeed),
              ElementsAre(training(11448, 4865872, 2048, 115311, 9965305856)));
}

// NeMo counts steps from 0, and iterations anew in each epoch, so its "/9" is no number of
// iterations of the run. The lines are of a run of NeMo 2.
TEST(LogLine, OfNemoCountsFromZero) {
  const std::string first =
      "Training epoch 0, iteration 0/9 | lr: 0.0006 | consumed_samples: 32 | global_batch_size: 32 | "
      "global_step: 0 | reduced_train_loss: 11.02";
  const std::string later =
      "i.nemo 0/0 [default0]:Training epoch 1, iteration 3/9 | lr: 0.0006 | consumed_samples: 448 | "
      "global_batch_size: 32 | global_step: 13 | reduced_train_loss: 7.113 | train_step_timing in s: 0.03146";
  EXPECT_THAT(parse_log_lines(first + "\n" + later),
              ElementsAre(training(1, 32, 32), training(14, 448, 32)));
  const auto without = parse_log_lines(
      "Training epoch 0, iteration 5/9 | lr: 0.0006 | loss: 8\n"
      "Training epoch 2, iteration 5/9 | lr: 0.0006 | loss: 8");
  ASSERT_EQ(without.size(), 1U);
  EXPECT_EQ(without[0].iteration, 6);
}

TEST(LogLine, OfNeoxTellsItsIteration) {
  const auto lines = parse_log_lines(
      " samples/sec: 47.617 | iteration       10/  143000 | elapsed time per iteration (ms): 2689.9 | "
      "learning rate: 1.875E-06 | approx flops per GPU: 110.3TFLOPS | lm_loss: 1.095E+01 | loss scale: "
      "4096.0 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
      " validation results at iteration 1000 | lm_loss value: 7.1E+00 | lm_loss_ppl value: 1.2E+03 | ");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].iteration, 10);
  EXPECT_FALSE(lines[0].is_validation);
  EXPECT_EQ(lines[0].consumed_samples, std::nullopt);
  EXPECT_EQ(lines[1].iteration, 1000);
  EXPECT_TRUE(lines[1].is_validation);
}

TEST(LogLine, MayStandBehindWhatLaunchersPrint) {
  for (const char* prefix :
       {"1: ", " 17: ", "[default7]:", "[rank3]: ", "node-4: [2] ", "worker: iteration "}) {
    EXPECT_THAT(parse_log_lines(std::string(prefix) +
                                " iteration 3/ 10 | consumed samples: 24 | global batch size: 8 |"),
                ElementsAre(training(3, 24, 8, 10)))
        << prefix;
  }
}

TEST(LogLine, OfAValidationTellsItsIteration) {
  const LogLine expected{.iteration = 1000,
                         .is_validation = true,
                         .consumed_samples = {},
                         .global_batch_size = {},
                         .consumed_tokens = {},
                         .num_iterations = {}};
  EXPECT_THAT(parse_log_lines("0:  validation loss at iteration 1000 | lm loss value: 7.1E+00 | lm "
                              "loss PPL: 1.2E+03 | "),
              ElementsAre(expected));
  EXPECT_THAT(parse_log_lines(" validation loss at iteration 1000 on validation set | lm loss"),
              ElementsAre(expected));
  EXPECT_THAT(parse_log_lines(" validation loss at the end of training for val data | lm"),
              IsEmpty());
}

TEST(LogLine, OfAnyOtherKindTellsNothing) {
  for (const char* text :
       {"", "\n\n", "iteration", "iteration ", "iteration 5", "iteration 5/", "iteration 5/ 6",
        "iteration -5/ 6 |", "iteration 0/ 6 | consumed samples: 0 |",
        "iteration 99999999999999999999/ 6 |", "an iteration of it",
        "time (ms) | forward: 53.79"}) {
    EXPECT_THAT(parse_log_lines(text), IsEmpty()) << text;
  }
}

TEST(LogLine, KeepsWhatALineDoesNotTellUnknown) {
  const auto lines = parse_log_lines(
      "iteration 5/ 6 |\r\nnoise\niteration 6/ 6 | consumed samples: 1.5E+03 | global batch size: 9");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].consumed_samples, std::nullopt);
  EXPECT_EQ(lines[0].global_batch_size, std::nullopt);
  EXPECT_EQ(lines[1].consumed_samples, std::nullopt);
  EXPECT_EQ(lines[1].global_batch_size, 9);
}

}  // namespace
}  // namespace weft
