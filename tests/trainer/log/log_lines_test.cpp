#include "trainer/log/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weft {
namespace {

IterationLine a_line() {
  return {.iteration = 25,
          .num_iterations = 73242187,
          .consumed_samples = 50,
          .consumed_tokens = 50 * 2048,
          .elapsed_ms = 87.0,
          .learning_rate = 1.638E-08,
          .global_batch_size = 2,
          .loss = 10.86954,
          .grad_norm = 0.5,
          .samples_per_s = 22.98851,
          .tokens_per_s = 47080};
}

// This is a line of a Megatron-LM log on Slurm, of training in fp16.
TEST(LogLines, IterationAsMegatron2021) {
  IterationLine line = a_line();
  line.loss_scale = 4294967296.0;
  EXPECT_EQ(iteration_line(LogFormat::kMegatron2021, line, ""),
            " iteration       25/73242187 | consumed samples:           50 | elapsed time per "
            "iteration (ms): 87.0 | learning "
            "rate: 1.638E-08 | global batch size:     2 | lm loss: 1.086954E+01 | loss scale: "
            "4294967296.0 | grad norm: 0.500 | number "
            "of skipped iterations:   0 | number of nan iterations:   0 |\n");
}

TEST(LogLines, IterationAsMegatronDeepSpeed) {
  IterationLine line = a_line();
  line.tflops = 81.3551;  // MFU is of these
  line.hardware_tflops = 108.4734;
  line.mfu = 34.77;
  line.params_norm = 12.3456;
  EXPECT_EQ(
      iteration_line(LogFormat::kMegatronDeepSpeed, line, ""),
      " iteration       25/73242187 | consumed samples:           50 | consumed tokens:       "
      "102400 | elapsed time per "
      "iteration (s): 0.0870 | learning rate: 1.638E-08 | global batch size:     2 | lm loss: "
      "1.086954E+01 | loss scale: "
      "1.0 | grad norm: 0.500 | params norm: 12.346 | number of skipped iterations:   0 | number "
      "of nan iterations:   0 "
      "| samples per second: 22.989 | TFLOPs: 108.47 | tokens per second: 47080 | MFU: 34.8 |\n");
}

TEST(LogLines, IterationAsMegatron2024) {
  IterationLine line = a_line();
  line.log_throughput = true;
  line.tflops = 412.34;
  EXPECT_EQ(iteration_line(LogFormat::kMegatron2024, line, "2024-07-16 22:14:01"),
            " [2024-07-16 22:14:01] iteration       25/73242187 | consumed samples:           50 | "
            "elapsed time per iteration "
            "(ms): 87.0 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 1.638000E-08 | "
            "global batch size:     2 | "
            "lm loss: 1.086954E+01 | loss scale: 1.0 | grad norm: 0.500 | number of skipped "
            "iterations:   0 | number of nan "
            "iterations:   0 |\n");
}

TEST(LogLines, ALossOfZeroOrAbsentHasNoField) {
  IterationLine line = a_line();
  line.loss.reset();
  line.grad_norm.reset();
  EXPECT_EQ(iteration_line(LogFormat::kMegatron2021, line, ""),
            " iteration       25/73242187 | consumed samples:           50 | elapsed time per "
            "iteration (ms): 87.0 | learning "
            "rate: 1.638E-08 | global batch size:     2 | loss scale: 1.0 | number of skipped "
            "iterations:   0 | number of nan "
            "iterations:   0 |\n");
}

TEST(LogLines, Timers) {
  const Timer timers[] = {
      {"forward-compute", 53.789}, {"backward-compute", 138.84}, {"optimizer", 49.416}};
  EXPECT_EQ(timer_line(LogFormat::kMegatron2021, timers),
            "time (ms) | forward-compute: 53.79 | backward-compute: 138.84 | optimizer: 49.42\n");
  EXPECT_EQ(timer_line(LogFormat::kMegatron2024, std::span(timers).first(1)),
            "(min, max) time across ranks (ms):\n"
            "    forward-compute ................................: (53.79, 53.79)\n");
  EXPECT_EQ(timer_line(LogFormat::kMegatron2021, {}), "");
}

TEST(LogLines, ValidationStandsBetweenDashesOneLonger) {
  const std::string line =
      " validation loss at iteration 1000 | lm loss value: 2.327091E+00 | lm loss PPL: "
      "1.024808E+01 | ";
  const std::string dashes(line.size() + 1, '-');
  EXPECT_EQ(validation_lines("iteration 1000", 2.3270905),
            dashes + "\n" + line + "\n" + dashes + "\n");
}

TEST(LogLines, PerplexityIsCapped) { EXPECT_DOUBLE_EQ(perplexity(1e9), std::exp(20.0)); }

TEST(LogLines, ArgumentsArePaddedTo48Columns) {
  EXPECT_EQ(
      arguments_banner({{"accumulate_allreduce_grads_in_fp32", "False"}, {"adam_beta1", "0.9"}}),
      "------------------------ arguments ------------------------\n"
      "  accumulate_allreduce_grads_in_fp32 .............. False\n"
      "  adam_beta1 ...................................... 0.9\n"
      "-------------------- end of arguments ---------------------\n");
}

TEST(LogLines, Fp8ErrorsNameTheWorstProducts) {
  const std::vector<float> errors = {0.01F, 0.02F, 0.0375F, 0.03F, 0.01F, 0.04F, 0.02F, 0.01F};
  EXPECT_EQ(
      fp8_errors_line(12, errors),
      " fp8 errors at iteration 12: layer 1 proj 4.00%, layer 0 fc1 3.75%, layer 0 fc2 3.00% | "
      "mean of 8 products 2.22%\n");
  EXPECT_THAT(fp8_errors_line(12, std::vector<float>{0.01F, NAN, 0.03F, 0.02F}),
              testing::HasSubstr(": layer 0 proj nan%, layer 0 fc1 3.00%"));
}

TEST(LogLines, TheOthers) {
  EXPECT_EQ(datetime_line("exiting program at iteration 7", "2024-07-16 22:14:01"),
            "[exiting program at iteration 7] datetime: 2024-07-16 22:14:01 \n");
  EXPECT_EQ(saving_line(300, "ckpt"), "saving checkpoint at iteration     300 to ckpt\n");
  EXPECT_EQ(saved_line(300, "ckpt"),
            "  successfully saved checkpoint at iteration     300 to ckpt\n");
  EXPECT_EQ(memory_line(0, 1, 3 << 20, 4 << 20),
            "[Rank 0] (after 1 iterations) memory (MB) | allocated: 3.0 | max allocated: 3.0 | "
            "reserved: 4.0 | max reserved: "
            "4.0\n");
  EXPECT_EQ(dataset_sizes_lines(
                {.train_samples = 146484375, .valid_samples = 5863680, .test_samples = 11520},
                /*full_validation=*/false),
            " > datasets target sizes (minimum size):\n    train:      146484375\n    validation: "
            "5863680\n    test:       "
            "11520\n");
}

TEST(LogLines, ProgressIsPercentTimeLeftAndRate) {
  EXPECT_EQ(progress_line(1'240'000, 10'000'000, 769.2, 41.02),
            " > 12.4 % | 3 h 9 min left | 769 tokens/s | MFU 41.0 %\n");
  EXPECT_EQ(progress_line(0, 300'000'000'000, 1.2e6, {}),
            " > 0.0 % | 2 d 21 h left | 1.20 M tokens/s\n");
  EXPECT_EQ(progress_line(90, 100, 1, {}), " > 90.0 % | 10 s left | 1 tokens/s\n");
}

}  // namespace
}  // namespace weft
