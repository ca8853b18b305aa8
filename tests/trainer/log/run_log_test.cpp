// The lines of a run are made of the device's times, not of the moments at which the host reads
// the results.
#include "trainer/log/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using testing::HasSubstr;

class Log : public testing::Test {
 protected:
  Log() {
    config_.log_interval = 1;
    config_.log_format = LogFormat::kMegatron2021;
    config_.num_layers = 1;
    config_.seq_length = 16;
    log_.emplace(RunLog::Options{.config = config_, .shape = {}, .device = "CPU", .run_id = ""},
                 out_);
  }
  ~Log() override { std::fclose(out_); }

  // Returns the text that a step with these times adds to the log.
  std::string text_of(int64_t iteration, double device_ms, double since_previous_ms,
                      double grad_norm = 1) {
    const long begin = std::ftell(out_);
    log_->on_step({.iteration = iteration,
                   .consumed_samples = 8 * iteration,
                   .global_batch_size = 8,
                   .seq_length = 16,
                   .learning_rate = 1,
                   .next_learning_rate = 1,
                   .batch_wait_ms = 0},
                  {.loss = 2,
                   .grad_norm = grad_norm,
                   .device_ms = device_ms,
                   .since_previous_ms = since_previous_ms});
    const long end = std::ftell(out_);
    std::string text(static_cast<size_t>(end - begin), '\0');
    std::fseek(out_, begin, SEEK_SET);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), out_), text.size());
    std::fseek(out_, 0, SEEK_END);
    return text;
  }

  Config config_;
  std::FILE* out_ = std::tmpfile();
  std::optional<RunLog> log_;
};

TEST_F(Log, ElapsedTimeLiesBetweenTheEndsOfStepsOnTheDevice) {
  log_->training_starts();
  EXPECT_THAT(text_of(1, 2390, 9000), HasSubstr("elapsed time per iteration (ms): 2390.0 |"));
  EXPECT_THAT(text_of(2, 2390, 2400), HasSubstr("elapsed time per iteration (ms): 2400.0 |"));
  { const RunLog::Pause pause(*log_); }  // an evaluation or a save
  EXPECT_THAT(text_of(3, 2391, 60'000), HasSubstr("elapsed time per iteration (ms): 2391.0 |"));
  EXPECT_THAT(text_of(4, 2390, 2392), HasSubstr("elapsed time per iteration (ms): 2392.0 |"));
}

TEST_F(Log, ALineOfProgressFollowsTheLineOfAnInterval) {
  EXPECT_THAT(text_of(1, 1, 1), testing::Not(HasSubstr(" left | ")));
  const auto log_every = [&](int seconds) {
    log_.emplace(RunLog::Options{.config = config_,
                                 .shape = {},
                                 .device = "CPU",
                                 .last_token = 1000,
                                 .progress_interval = std::chrono::seconds(seconds),
                                 .run_id = ""},
                 out_);
  };
  log_every(3600);
  EXPECT_THAT(text_of(1, 1, 1), testing::Not(HasSubstr(" left | ")));
  log_every(0);
  config_.log_interval = 2;
  text_of(1, 1, 1);  // The first step of a process is logged whatever the interval.
  EXPECT_THAT(text_of(2, 1, 1), HasSubstr("\n > 0.0 % | "));
  EXPECT_THAT(text_of(3, 1, 1), testing::Not(HasSubstr(" left | ")));
}

// Megatron-DeepSpeed's TFLOPs count what is recomputed, Megatron-LM's throughput does not.
TEST_F(Log, ThroughputCountsRecomputationAsEachMegatronDoes) {
  config_.log_throughput = true;
  const auto throughput = [&](LogFormat format, int64_t num_recomputed_layers, const char* label) {
    config_.log_format = format;
    log_.emplace(RunLog::Options{.config = config_,
                                 .shape = {.num_layers = 2,
                                           .hidden_size = 1 << 14,
                                           .num_heads = 1,
                                           .head_size = 1 << 14,
                                           .ffn_size = 1 << 16,
                                           .padded_vocab_size = 0},
                                 .device = "CPU",
                                 .num_recomputed_layers = num_recomputed_layers,
                                 .run_id = ""},
                 out_);
    const std::string text = text_of(1, 1, 1);
    const size_t begin = text.find(label);
    return begin == std::string::npos ? 0 : std::stod(text.substr(begin + std::strlen(label)));
  };
  const auto deepspeed = [&](int64_t layers) {
    return throughput(LogFormat::kMegatronDeepSpeed, layers, "TFLOPs: ");
  };
  const auto core = [&](int64_t layers) {
    return throughput(LogFormat::kMegatron2024, layers, "(TFLOP/s/GPU): ");
  };
  ASSERT_GT(core(0), 0);
  EXPECT_EQ(core(2), core(0));
  EXPECT_NEAR(deepspeed(0), core(0), 0.1);
  EXPECT_NEAR(deepspeed(1), core(0) * 7 / 6, 0.2);
  EXPECT_NEAR(deepspeed(2), core(0) * 4 / 3, 0.2);
}

// As in Megatron: the loss is the mean over the other steps, and there is no norm where the last
// step was skipped. A loss that is not finite makes a skipped step one of NaN.
TEST_F(Log, SkippedStepsAreCountedAndNoPartOfTheLoss) {
  config_.log_interval = 3;
  const auto step = [&](int64_t iteration, double loss, double norm, bool skipped) {
    StepResult result;
    result.loss = loss;
    result.grad_norm = norm;
    result.outcome = {.skipped = skipped, .loss_scale = 4294967296.0};
    log_->on_step({.iteration = iteration, .global_batch_size = 1}, result);
  };
  const auto lines = [&] {
    std::rewind(out_);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out_));
    std::fseek(out_, 0, SEEK_END);
    return text;
  };
  step(1, 2, 1.5, false);
  step(2, 100, INFINITY, true);
  step(3, 4, 2.5, false);
  EXPECT_THAT(lines(), HasSubstr("| lm loss: 3.000000E+00 | loss scale: 4294967296.0 | grad norm: "
                                 "2.500 | number of skipped iterations:   1 | number of nan "
                                 "iterations:   0 |"));
  step(4, std::nan(""), std::nan(""), true);
  step(5, 100, INFINITY, true);
  step(6, 100, INFINITY, true);
  EXPECT_THAT(lines(), HasSubstr("| loss scale: 4294967296.0 | number of skipped iterations:   3 | "
                                 "number of nan iterations:   1 |"));
}

TEST_F(Log, BothRatesAreThoseOfTheIntervalWhileTheBatchGrows) {
  config_.log_interval = 2;
  config_.log_format = LogFormat::kMegatronDeepSpeed;
  for (const int64_t batch : {1, 3}) {
    log_->on_step({.iteration = batch == 1 ? 1 : 2, .global_batch_size = batch, .seq_length = 16},
                  {.loss = 2, .device_ms = 500, .since_previous_ms = 500});
  }
  std::rewind(out_);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out_));
  EXPECT_THAT(text, HasSubstr("samples per second: 4.000 |"));
  EXPECT_THAT(text, HasSubstr("tokens per second: 64 |"));
}

// The run's state is worth more than its log.
TEST_F(Log, AFullStandardOutputIsToldOnceAndInTheMetrics) {
  const TemporaryFolder folder;
  config_.run_dir = (folder / "run").string();
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  testing::internal::CaptureStderr();
  {
    RunLog log(RunLog::Options{.config = config_, .shape = {}, .device = "CPU", .run_id = "0a"},
               full);
    for (int64_t i = 1; i <= 3; ++i)
      log.on_step({.iteration = i, .global_batch_size = 8, .seq_length = 16}, {.loss = 2});
  }
  std::fclose(full);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, HasSubstr("the standard output takes no more log lines (No space left"));
  EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
  const std::string metrics = read_file(folder / "run/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr("\"lost_output\":\"No space left on device\""));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 4);
}

TEST_F(Log, AFullDiskUnderTensorBoardsFolderIsOneWarning) {
  const TemporaryFolder folder;
  config_.tensorboard_dir = (folder / "tb").string();
  config_.log_interval = 100;
  log_.emplace(RunLog::Options{.config = config_, .shape = {}, .device = "CPU", .run_id = "0a"},
               out_);
  set_io_fault(2, ENOSPC);
  for (int64_t i = 1; i <= 3; ++i)
    log_->on_step({.iteration = i, .global_batch_size = 8, .seq_length = 16}, {.loss = 2});
  set_io_fault(0, 0);
  std::rewind(out_);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out_));
  EXPECT_THAT(text, testing::StartsWith("WARNING: --tensorboard-dir " + config_.tensorboard_dir));
  EXPECT_THAT(text, HasSubstr("No space left on device"));
  // The first step has two lines besides.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST_F(Log, AGradientNormThatIsNotFiniteCountsAsANanIteration) {
  EXPECT_THAT(text_of(1, 1, 1, std::nan("")), HasSubstr("number of nan iterations:   1 |"));
  EXPECT_THAT(text_of(2, 1, 1), HasSubstr("number of nan iterations:   0 |"));
}

}  // namespace
}  // namespace weft
