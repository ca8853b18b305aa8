// Runs whose tokens are written down (recording_backend.h), beside those that weft-data inspect
// samples --run shows.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/preprocess/inspect/inspect_run.h"
#include "tests/trainer/recording_backend.h"
#include "trainer/command_line/command_line.h"
#include "trainer/loop/train_loop.h"
#include "trainer/problems/problems.h"
#include "trainer/ranks/join_ranks.h"

namespace weft {

inline constexpr int64_t kMicroBatch = 2;

class InspectTokens : public InspectRun {
 protected:
  void SetUp() override {
    InspectRun::SetUp();
    // Ids suffice here, and to load a vocabulary takes longer than all the rest of a call.
    unsetenv("WEFT_GPT2_DIR");
    setenv("HOME", folder_.path().c_str(), 1);
  }
  // Arguments with these words in the place of the datasets, for this many samples.
  Arguments run_of(const Arguments& data, const std::string& train_samples,
                   const Arguments& more = {}) const {
    Arguments all = arguments("run");
    for (const auto& [flag, count] :
         {std::pair{"--data-path", 4}, {"--train-iters", 2}, {"--lr-warmup-iters", 2}}) {
      const auto at = std::find(all.begin(), all.end(), flag);
      all.erase(at, at + count);
    }
    all.insert(all.end(), {"--train-samples", train_samples, "--lr-warmup-samples", "16"});
    all.insert(all.end(), data.begin(), data.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Trains in this process, whose passes are written down.
  void train(const Arguments& all) {
    ParsedArguments parsed = parse_arguments(all);
    ASSERT_THAT(parsed.problems, testing::IsEmpty());
    ASSERT_THAT(problems_of(parsed.config), testing::IsEmpty());
    parsed.config.fill_defaults();
    const auto ranks = join_ranks({});
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
    weft::Run run = start_run({parsed.config, RunStart::Clock::now(), *ranks, out.get()}, {});
    TrainLoop(run).run();
  }

  // Returns the samples of all passes that trained, or of the others, in order.
  static std::vector<std::vector<int32_t>> samples_of_passes(bool trains) {
    std::vector<std::vector<int32_t>> samples;
    for (const Pass& pass : passes) {
      if (pass.trains != trains) continue;
      const auto length = std::ssize(pass.tokens) / kMicroBatch;
      for (auto at = pass.tokens.begin(); at != pass.tokens.end(); at += length)
        samples.emplace_back(at, at + length);
    }
    return samples;
  }
  // Appends the inputs of the samples that inspect shows, and checks that their parts name them.
  void append_shown(const Arguments& more, std::vector<std::vector<int32_t>>& all) {
    ASSERT_EQ(inspect_run("run", more), 0) << output();
    for (const nlohmann::json& sample : samples()) {
      all.push_back(sample.at("ids").get<std::vector<int32_t>>());
      EXPECT_EQ(all.back(), tokens_of_parts(sample)) << sample;
      ASSERT_GE(all.back().size(), 2U);
      all.back().pop_back();
    }
  }
  static std::vector<int32_t> tokens_of_parts(const nlohmann::json& sample) {
    const DatasetReader reader(sample.at("dataset").get<std::string>());
    std::vector<int32_t> tokens;
    for (const nlohmann::json& part : sample.at("parts")) {
      const auto count = part.at("num_tokens").get<int64_t>();
      tokens.resize(tokens.size() + static_cast<size_t>(count));
      reader.copy_tokens(part.at("sequence"), part.at("begin_token"), count,
                         &*tokens.end() - count);
    }
    return tokens;
  }
  void expect_shown_is_trained() {
    std::vector<std::vector<int32_t>> shown;
    const auto num_iterations = metrics("run").back().at("iteration").get<int64_t>();
    for (int64_t i = 1; i <= num_iterations; ++i)
      append_shown({"--iteration", std::to_string(i)}, shown);
    EXPECT_EQ(shown, samples_of_passes(/*trains=*/true));
  }
  // A ramp-up from 4 to 8, then a resumption with batches of 6.
  void train_in_two_segments(const Arguments& data) { train_in_two_segments(data, data); }
  void train_in_two_segments(const Arguments& data, const Arguments& later) {
    passes.clear();
    train(run_of(data, "96", {"--rampup-batch-size", "4", "2", "24", "--exit-interval", "8"}));
    train(run_of(later, "96", {"--global-batch-size", "6", "--override-lr-scheduler"}));
    expect_shown_is_trained();
  }

  std::string other_ = write_tiny_dataset(folder_ / "other", 80);
  const Arguments weighted_ = {"--data-path", "0.25", prefix_, "0.75", other_, "--split", "90,5,5"};
};

}  // namespace weft
