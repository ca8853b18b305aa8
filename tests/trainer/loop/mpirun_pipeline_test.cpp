// Pipeline stages that mpirun starts: they train what one process trains, over a restart, and from
// each other's checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int64_t kSamples = 464;  // some 60 steps

class Stages : public Ranks {
 protected:
  static inline const Arguments kPp2 = {"--pipeline-model-parallel-size", "2"};
  static inline const Arguments kPp4 = {"--pipeline-model-parallel-size", "4"};
  static inline const Arguments kPp2Tp2 = words(
      "--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 "
      "--sequence-parallel --check-weights-interval 20");
  static inline const Arguments kPp2Tp2V2 =
      with(kPp2Tp2, {"--num-layers-per-virtual-pipeline-stage", "1"});
  static inline const Arguments kPp2Dp2 = {
      "--pipeline-model-parallel-size", "2",  "--use-distributed-optimizer",
      "--check-weights-interval",       "20", "--use-tp-pp-dp-mapping"};

  // The vocabulary has more tokens than the dataset, whose own last token ends documents.
  void SetUp() override {
    Ranks::SetUp();
    write_file_atomically(prefix_ + ".manifest.json", R"({"vocabulary":{"size":64}})");
  }

  // Dropout, a mask, a batch of 4, 8 and then 12 samples, and a vocabulary whose padding differs by
  // topology.
  Arguments model(const std::string& run, const Arguments& more = {}) const {
    Arguments all = arguments(
        run, kSamples,
        with(words("--num-layers 4 --num-attention-heads 4 --vocab-size 67 "
                   "--make-vocab-size-divisible-by 8 --eod-mask-loss --rampup-batch-size 4 4 200 "
                   "--global-batch-size 12 --lr 2e-3 --save-interval 20 --eval-interval 20"),
             more));
    for (const auto& [by_steps, by_samples] : {std::pair{"--train-iters", "--train-samples"},
                                               {"--lr-warmup-iters", "--lr-warmup-samples"}})
      std::replace(all.begin(), all.end(), std::string(by_steps), std::string(by_samples));
    return all;
  }
  std::vector<double> validation_losses(const std::string& run) const {
    std::vector<double> losses;
    for (const auto& line : metrics(run)) {
      if (line.contains("validation_loss")) losses.push_back(line.at("validation_loss"));
    }
    return losses;
  }
};

TEST_F(Stages, TrainWhatOneProcessTrains) {
  ASSERT_EQ(run(model("one")), 0) << output();
  for (const auto& [name, num_ranks, topology] :
       {std::tuple<std::string, int, Arguments>{"pp2", 2, kPp2},
        {"pp4", 4, kPp4},
        {"pp2tp2v2", 4, kPp2Tp2V2},
        {"pp2dp2", 4, kPp2Dp2}}) {
    ASSERT_EQ(run_ranks(num_ranks, model(name, topology)), 0) << output();
    expect_near(name, "one");
    const std::vector<double> found = validation_losses(name), expected = validation_losses("one");
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_GE(found.size(), 3U);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * found[i]);
    EXPECT_EQ(std::filesystem::file_size(folder_ / (name + "/sample_losses.bin")),
              std::filesystem::file_size(folder_ / "one/sample_losses.bin"));
    EXPECT_THAT(output(), HasSubstr("stage=0 layers="));
    EXPECT_THAT(output(), HasSubstr("model parallel rank (0, 1): "));
    EXPECT_THAT(output(), HasSubstr(" | pipeline-exchange: "));
    const bool checks = topology.size() > 2;
    EXPECT_EQ(count(output(), ">>> Weight hashes match after "), checks ? 2U : 0U) << output();
  }
}

TEST_F(Stages, GoOnToTheBitAndFromEachOthersCheckpoints) {
  const Arguments uneven = with(kPp2Dp2, {"--pp-partition-method", "1,3"});
  ASSERT_EQ(run_ranks(4, model("straight", uneven)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("stage=1 layers=3 (layers 1-3, head)"));
  ASSERT_EQ(run_ranks(4, model("broken", with(uneven, {"--exit-interval", "40", "--async-save"}))),
            0)
      << output();
  EXPECT_EQ(tracker("broken"), "40");
  for (const char* name : {"alone", "pp4", "tp2pp2"}) {
    std::filesystem::copy(folder_ / "broken", folder_ / name,
                          std::filesystem::copy_options::recursive);
  }
  ASSERT_EQ(run_ranks(4, model("broken", uneven)), 0) << output();
  expect_equal_runs("broken", "straight");
  expect_exports("broken");

  ASSERT_EQ(run(model("alone")), 0) << output();
  expect_near("alone", "straight");
  ASSERT_EQ(run_ranks(4, model("pp4", with(kPp4, {"--pp-partition-method", "0,2,2,0"}))), 0)
      << output();
  expect_near("pp4", "straight");
  ASSERT_EQ(run_ranks(4, model("tp2pp2", kPp2Tp2)), 0) << output();
  expect_near("tp2pp2", "straight");
}

// Two tensor-parallel ranks in each of two stages of two replicas, with and without shared rows.
TEST_F(Stages, TwoByTwoByTwoTrainInBf16AndFp16) {
  for (const Arguments& precision : {Arguments{"--bf16"}, Arguments{"--fp16"}}) {
    const std::string name = precision[0].substr(2);
    const Arguments eight =
        with(precision, {"--pipeline-model-parallel-size", "2", "--tensor-model-parallel-size", "2",
                         "--use-distributed-optimizer", "--check-weights-interval", "20"});
    ASSERT_EQ(run(model(name, precision)), 0) << output();
    ASSERT_EQ(run_ranks(8, model(name + "8", eight)), 0) << output();
    EXPECT_EQ(count(output(), ">>> Weight hashes match after "), 2U) << output();
    expect_near(name + "8", name, 1e-2);
    ASSERT_EQ(run_ranks(8, model(name + "rows", with(eight, {"--sequence-parallel"}))), 0);
    expect_near(name + "rows", name, 1e-2);
    ASSERT_EQ(run_ranks(8, model(name + "broken", with(eight, {"--exit-interval", "40"}))), 0);
    ASSERT_EQ(run_ranks(8, model(name + "broken", eight)), 0) << output();
    EXPECT_EQ(trajectory(name + "broken"), trajectory(name + "8")) << "one topology, equal bits";
  }
}

// One sample in each micro-batch: four data-parallel ranks then sum the same losses.
TEST_F(Stages, InterleavedGoOnToTheBitAndFromAndToOtherTopologies) {
  const auto single = [&](const std::string& run, const Arguments& more) {
    Arguments all = model(run, more);
    *(std::find(all.begin(), all.end(), "--micro-batch-size") + 1) = std::string("1");
    return all;
  };
  const Arguments interleaved = with(kPp2Tp2V2, {"--use-distributed-optimizer"});
  const Arguments stops = {"--exit-interval", "40"};
  ASSERT_EQ(run_ranks(4, single("straight", interleaved)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("stage=2 layers=1 (layer 2) on pipeline rank 0\n"));
  ASSERT_EQ(run_ranks(4, single("broken", with(interleaved, stops))), 0) << output();
  ASSERT_EQ(run_ranks(4, single("plain", with(kPp4, stops))), 0) << output();
  for (const char* name : {"dp4", "pp4"}) {
    std::filesystem::copy(folder_ / "broken", folder_ / name,
                          std::filesystem::copy_options::recursive);
  }
  ASSERT_EQ(run_ranks(4, single("broken", interleaved)), 0) << output();
  EXPECT_EQ(trajectory("broken"), trajectory("straight")) << "one topology, equal bits";
  ASSERT_EQ(run_ranks(4, single("dp4", {})), 0) << output();
  ASSERT_EQ(run_ranks(4, single("pp4", kPp4)), 0) << output();
  ASSERT_EQ(run_ranks(4, single("plain", interleaved)), 0) << output();
  for (const char* name : {"dp4", "pp4", "plain"}) expect_near(name, "straight");
}

TEST_F(Stages, ThatCannotBeAreRefusedAndPlansShowThem) {
  EXPECT_EQ(run_ranks(3, model("usage", {"--pipeline-model-parallel-size", "3"})), 2);
  EXPECT_EQ(count(output(), "--num-layers 4 is not a multiple of --pipeline-model-parallel-size 3"),
            1U)
      << output();
  EXPECT_EQ(run(model("usage", with(kPp4, {"--dry-run", "--verbose", "--pp-partition-method",
                                           "type:transformer|embedding"}))),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("stage=3 layers=1 (layer 3, head)\n"));
  EXPECT_THAT(output(), HasSubstr(" > each of 1 ranks of a stage plans the same memory (MiB):\n"
                                  "    stage   parameters"));
  EXPECT_THAT(output(), HasSubstr("pipeline bubble: 33.3 % of a step with 6 micro-batches"));
  EXPECT_THAT(output(), HasSubstr("which plans the most:\nmemory plan (MiB)"));
  const Arguments shared =
      with(kPp2, {"--dry-run", "--verbose", "--tensor-model-parallel-size", "2"});
  EXPECT_EQ(run(model("usage", shared)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("MiB of a micro-batch to the next stage, and receives as much "
                                  "back: one of 2 parts, which tensor-parallel ranks gather\n"));
  EXPECT_EQ(run(model("usage", with(shared, {"--no-scatter-gather-tensors-in-pipeline"}))), 0);
  EXPECT_THAT(output(), HasSubstr("and receives as much back\n"));
  EXPECT_EQ(run(model("usage", with(kPp2, {"--dry-run", "--verbose",
                                           "--num-virtual-stages-per-pipeline-rank", "2"}))),
            0)
      << output();
  EXPECT_THAT(output(), HasSubstr("stage=3 layers=1 (layer 3, head) on pipeline rank 1\n"));
  EXPECT_THAT(output(), HasSubstr("pipeline bubble: 7.7 % of a step with 6 micro-batches, the last "
                                  "size, and 2 virtual stages on each rank\n"));
  const Arguments groups = {"--dry-run",
                            "--verbose",
                            "--num-virtual-stages-per-pipeline-rank",
                            "2",
                            "--microbatch-group-size-per-virtual-pipeline-stage",
                            "4"};
  Arguments uneven = model("usage", with(kPp2, groups));
  *(std::find(uneven.begin(), uneven.end(), "--rampup-batch-size") + 1) = std::string("8");
  EXPECT_EQ(run(uneven), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("pipeline bubble: at least 7.7 % of a step with 6 micro-batches"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "usage"));
}

// Returns the bytes of files ending in `suffix` that the process has mapped and touched.
int64_t touched_bytes(pid_t process, const std::string& suffix) {
  std::ifstream smaps("/proc/" + std::to_string(process) + "/smaps");
  bool is_of_file = false;
  int64_t kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) is_of_file = line.ends_with(suffix);
    if (is_of_file && line.starts_with("Rss:")) kib += std::stoll(line.substr(4));
  }
  return kib << 10;
}

// All ranks know the lengths of documents, from which the samples follow.
TEST_F(Stages, BetweenTheFirstAndTheLastReadNoTokens) {
  const pid_t mpirun =
      start_ranks(3, model("long", {"--pipeline-model-parallel-size", "3", "--pp-partition-method",
                                    "1,2,1", "--train-samples", "1000000"}));
  wait_for_iteration("long", 10, mpirun);
  const std::vector<pid_t> ranks = ranks_of(mpirun);
  EXPECT_EQ(ranks.size(), 3U);
  std::vector<bool> touched;
  for (const pid_t rank : ranks) {
    touched.push_back(touched_bytes(rank, ".bin") > 0);
    EXPECT_GT(touched_bytes(rank, "weft-train"), 0) << "the process was there";
  }
  EXPECT_EQ(touched, (std::vector<bool>{true, false, true}));
  kill(mpirun, SIGTERM);
  wait(mpirun);
}

TEST_F(Stages, ThatStandStillAreNamedAndWhatOthersWaitFor) {
  EXPECT_EQ(
      stop_second_of_two("stopped", model("stopped", with(kPp2, {"--train-samples", "1000000"}))),
      12);
  EXPECT_THAT(failure("stopped").at("reason").get<std::string>(), HasSubstr("rank 1"));
  const std::string record = read_file(folder_ / "stopped/operations.rank_00000.txt");
  const size_t last_line = record.rfind('\n', record.size() - 2) + 1;
  EXPECT_THAT(record.substr(last_line), HasSubstr(" waits ")) << record;
}

}  // namespace
}  // namespace weft
