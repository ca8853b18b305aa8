// Benchmarks and texts of the model while weft-train trains it.
#include <gmock/gmock.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/trainer/generate/byte_tokenizer.h"
#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LiveModelRun : public Ranks {
 protected:
  void SetUp() override {
    Training::SetUp();
    write_byte_tokenizer(folder_ / "bytes");
  }
  Arguments training(const std::string& run, const Arguments& more = {}) const {
    Arguments all = arguments(run, 20, more);
    *(std::find(all.begin(), all.end(), "--vocab-size") + 1) = std::to_string(kByteTokens);
    return with(all, tokenizer());
  }
  Arguments tokenizer() const {
    return {"--vocab-file", (folder_ / "bytes/vocab.json").string(), "--merge-file",
            (folder_ / "bytes/merges.txt").string()};
  }
  Arguments probes() const {
    return {"--eval-tasks",
            (folder_ / "steps.jsonl").string(),
            (folder_ / "next.jsonl").string(),
            "--eval-tasks-interval",
            "10",
            "--sample-prompt",
            "!#%')",
            "+,-",
            "--sample-interval",
            "20"};
  }
  void write_tasks() const {
    std::string steps, next;
    for (int i = 0; i < 40; ++i) {
      std::string context(3 + i % 5, 'x');
      for (size_t c = 0; c < context.size(); ++c)
        context[c] = static_cast<char>('!' + (i + 2 * c) % 60);
      const std::string right(1, static_cast<char>('!' + (i + 2 * context.size()) % 60));
      steps +=
          nlohmann::json{
              {"context", context}, {"endings", {right + "A", "~" + right, "z"}}, {"label", i % 3}}
              .dump() +
          "\n";
      next += nlohmann::json{{"context", context}, {"endings", {right}}}.dump() + "\n";
    }
    write_file_atomically(folder_ / "steps.jsonl", steps);
    write_file_atomically(folder_ / "next.jsonl", next);
  }
  std::string state(const std::string& run) const {
    return read_file(folder_ / run / "iter_0000020/state_00000.safetensors");
  }
  // Takes the lines of benchmarks and texts out of those of a run.
  static std::vector<nlohmann::json> take(std::vector<nlohmann::json>& lines,
                                          const std::string& key) {
    std::vector<nlohmann::json> taken;
    std::erase_if(lines, [&](const nlohmann::json& line) {
      if (line.contains(key)) taken.push_back(line);
      return line.contains(key);
    });
    return taken;
  }
  std::vector<nlohmann::json> printed() const {
    std::vector<nlohmann::json> lines;
    std::istringstream in(output());
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("{")) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  // Expects the numbers that weft-model tells of the checkpoint.
  void expect_those_of_the_checkpoint(const std::string& run,
                                      const std::vector<nlohmann::json>& scores,
                                      const std::vector<nlohmann::json>& samples) {
    const Arguments model =
        with({"--load", (folder_ / run).string(), "--device", "cpu"}, tokenizer());
    ASSERT_EQ(weft_model(with(with({"evaluate"}, model),
                              {"--tasks", (folder_ / "steps.jsonl").string(),
                               (folder_ / "next.jsonl").string(), "--format", "json"})),
              0)
        << output();
    const auto expected = printed();
    ASSERT_EQ(expected.size(), 2U) << output();
    for (size_t i = 0; i < 2; ++i) {
      for (const auto& [key, value] : expected[i].items()) {
        if (value.is_number_float()) {
          EXPECT_NEAR(scores[2 + i].at(key), value, 1e-5 * value.get<double>()) << key;
        } else {
          EXPECT_EQ(scores[2 + i].at(key), value) << key;
        }
      }
    }
    write_file_atomically(folder_ / "prompts", "!#%')\n+,-\n");
    ASSERT_EQ(weft_model(with(with({"generate"}, model),
                              {"--prompts", (folder_ / "prompts").string(), "--format", "jsonl"})),
              0);
    const auto texts = printed();
    ASSERT_EQ(texts.size(), 2U) << output();
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(samples[i].at("text"), texts[i].at("text"));
  }
};

TEST_F(LiveModelRun, LogsWhatTheCheckpointTellsAndChangesNoBitOfTraining) {
  write_tasks();
  ASSERT_EQ(run(training("alone")), 0) << output();
  ASSERT_EQ(run(training("watched", probes())), 0) << output();
  const std::string log = output();
  EXPECT_EQ(state("watched"), state("alone"));
  auto lines = metrics("watched");
  const auto scores = take(lines, "task"), samples = take(lines, "prompt");
  EXPECT_EQ(lines.size(), metrics("alone").size());
  EXPECT_EQ(losses("watched"), losses("alone"));

  ASSERT_EQ(scores.size(), 4U);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(scores[0].at("iteration"), 10);
  EXPECT_EQ(scores[3].at("iteration"), 20);
  EXPECT_EQ(samples[1].at("prompt"), "+,-");
  EXPECT_THAT(log, AllOf(HasSubstr(" task steps at iteration 10 | accuracy: "),
                         HasSubstr(" task next at iteration 20 | accuracy: "),
                         HasSubstr(" sample at iteration 20 | !#%') -> ")));
  expect_those_of_the_checkpoint("watched", scores, samples);
}

TEST_F(LiveModelRun, DataParallelRanksShareTheBenchmarks) {
  if (!has_mpirun_) GTEST_SKIP() << "mpirun (openmpi-bin) cannot start two processes here";
  write_tasks();
  const Arguments sharded = {"--use-distributed-optimizer"};
  ASSERT_EQ(run_ranks(2, training("watched", with(probes(), sharded))), 0) << output();
  ASSERT_EQ(run_ranks(2, training("alone", sharded)), 0) << output();
  EXPECT_EQ(state("watched"), state("alone"));
  auto lines = metrics("watched");
  const auto scores = take(lines, "task"), samples = take(lines, "prompt");
  ASSERT_EQ(scores.size(), 4U);
  ASSERT_EQ(samples.size(), 2U);
  expect_those_of_the_checkpoint("watched", scores, samples);
}

// Attention to the long context needs more workspace than that to the short prompt.
TEST_F(LiveModelRun, BenchmarksLongerThanThePromptKeepTheirWorkspace) {
  write_file_atomically(
      folder_ / "steps.jsonl",
      nlohmann::json{{"context", std::string(250, 'x')}, {"endings", {"y"}}}.dump() + "\n");
  const Arguments wide = {"--num-layers",
                          "1",
                          "--hidden-size",
                          "512",
                          "--num-attention-heads",
                          "1",
                          "--seq-length",
                          "256",
                          "--max-position-embeddings",
                          "256",
                          "--micro-batch-size",
                          "1",
                          "--global-batch-size",
                          "1",
                          "--train-iters",
                          "2",
                          "--lr-warmup-iters",
                          "0",
                          "--eval-tasks",
                          (folder_ / "steps.jsonl").string(),
                          "--eval-tasks-interval",
                          "1",
                          "--sample-prompt",
                          "!",
                          "--sample-interval",
                          "2"};
  ASSERT_EQ(run(training("wide", wide)), 0) << output();
  EXPECT_THAT(output(), AllOf(HasSubstr(" task steps at iteration 2 | "),
                              HasSubstr(" sample at iteration 2 | ! -> ")));
}

TEST_F(LiveModelRun, DryRunCountsTheMemoryOfBenchmarks) {
  write_tasks();
  const Arguments tasks = {"--eval-tasks", (folder_ / "steps.jsonl").string(),
                           "--eval-tasks-interval", "10"};
  const auto needed_gib = [this] {
    const std::string text = output();
    return std::stod(text.substr(text.find("needs ") + 6));
  };
  const auto between = [this](const std::string& begin, const std::string& end) {
    const std::string text = output();
    const size_t at = text.find(begin) + begin.size();
    return text.find(begin) == text.npos ? "none" : text.substr(at, text.find(end, at) - at);
  };
  ASSERT_EQ(run(training("run", tasks)), 0) << output();
  const std::string taken = between(" > --eval-tasks and --sample-prompt: ", " MiB more memory");
  ASSERT_EQ(run(training("run", with(tasks, {"--dry-run"}))), 0) << output();
  EXPECT_EQ(between(" > --eval-tasks: ", " MiB more on each device"), taken);
  // The verdict counts it: examples of 4,000 characters need more than the verdict's last digit.
  const Arguments longer = {"--seq-length", "4096", "--max-position-embeddings", "4096",
                            "--dry-run"};
  ASSERT_EQ(run(training("run", longer)), 0) << output();
  const double without = needed_gib();
  write_file_atomically(
      folder_ / "steps.jsonl",
      nlohmann::json{{"context", std::string(4000, 'x')}, {"endings", {"y"}}}.dump() + "\n");
  ASSERT_EQ(run(training("run", with(longer, tasks))), 0) << output();
  const double planned = std::stod(between(" > --eval-tasks: ", " MiB more on each device"));
  EXPECT_NEAR(needed_gib() - without, planned / 1024, 0.011);
  EXPECT_GT(planned, 20);
}

TEST_F(LiveModelRun, WhatCannotServeIsToldBeforeTheModelIsBuilt) {
  write_tasks();
  const auto expect = [&](const Arguments& more, ExitCode code, const std::string& what) {
    EXPECT_EQ(static_cast<ExitCode>(run(training("run", more))), code) << output();
    EXPECT_THAT(output(), AllOf(HasSubstr(what), testing::Not(HasSubstr("building GPT model"))));
  };
  expect({"--eval-tasks", "x", "--sample-interval", "5"}, ExitCode::kUsage,
         "--sample-prompt and --sample-interval belong together");
  expect({"--sample-prompt", "x", "--sample-interval", "0"}, ExitCode::kUsage,
         "--sample-interval must be positive (got 0)");
  expect({"--sample-prompt", "x", "--sample-interval", "5", "--pipeline-model-parallel-size", "2"},
         ExitCode::kUsage, "need the whole model on each rank");
  expect({"--sample-prompt", "12345678901234567", "--sample-interval", "5"}, ExitCode::kBadInput,
         "--sample-prompt: the prompt has 17 tokens, the model has positions for 16");
  write_file_atomically(folder_ / "bad.jsonl", "{\"context\": \"a\"}\n");
  expect({"--eval-tasks", (folder_ / "bad.jsonl").string(), "--eval-tasks-interval", "5"},
         ExitCode::kBadInput, "bad.jsonl:1: not an example like");
  expect({"--eval-tasks", (folder_ / "none.jsonl").string(), "--eval-tasks-interval", "5"},
         ExitCode::kIo, "none.jsonl");
}

}  // namespace
}  // namespace weft
