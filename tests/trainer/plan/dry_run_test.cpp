// weft-train --dry-run plans a run and does nothing.
#include <gmock/gmock.h>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(Training, DryRunSaysEverythingAndDoesNothing) {
  ASSERT_EQ(run(arguments("run", 30, {"--dry-run", "--verbose"})), 0) << output();
  for (const char* text :
       {"memory plan", "number of parameters on", "learning rate", "    train:      240",
        "    validation: 32", "    test:       8", "300 documents"}) {
    EXPECT_THAT(output(), HasSubstr(text));
  }
  EXPECT_THAT(output(), Not(HasSubstr("times as many")));
  ASSERT_EQ(run(arguments("run", 3000, {"--dry-run", "--verbose"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" tokens; training takes 1")) << "some 384,000 of 28,000 tokens";
  EXPECT_THAT(output(), HasSubstr(" times as many\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Training, DryRunTellsWhatMuonCosts) {
  const Arguments planned = {"--dry-run", "--verbose", "--optimizer", "muon"};
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(), testing::ContainsRegex(
                            " > Muon: [0-9.e+]+ FLOPs of Newton-Schulz iterations on the first "
                            "rank in an iteration, [0-9.e+]+ % of its share"));
  EXPECT_THAT(output(), HasSubstr("momentum and exp_avg"));
  EXPECT_THAT(output(), HasSubstr("Newton-Schulz matrices"));
}

// The answer comes first, and nothing hides it: what most do not ask for is for --verbose.
TEST_F(Training, DryRunBeginsWithItsVerdictAndShowsOneTable) {
  const Arguments planned = {"--dry-run", "--device-profile",
                             "h100",      "--kv-channels",
                             "64",        "--pipeline-model-parallel-size",
                             "2"};
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(),
              testing::ContainsRegex(
                  "^fits: [0-9.]+ K parameters on 2 x NVIDIA H100 \\(TP 1, PP 2, DP 1\\): "
                  "needs [0-9.]+ of 78.66 GiB, bubble [0-9.]+ %, 30 iterations of "));
  EXPECT_THAT(output(), HasSubstr(" > stage 0, which plans the most:\nmemory plan (MiB)\n"));
  for (const char* text : {"learning rate", "number of parameters on", "model FLOPs",
                           "stage=", "hidden_size", "training:"}) {
    EXPECT_THAT(output(), Not(HasSubstr(text)));
  }
  EXPECT_LT(std::ranges::count(output(), '\n'), 20) << output();
  ASSERT_EQ(run(with(arguments("run", 30, {"--dry-run"}), {"--split", "98,2,0"})), 0) << output();
  EXPECT_THAT(output(), HasSubstr("\nWARNING: --split 98,2,0 gives the test set 0 %"));
}

TEST_F(Training, DryRunTellsDaysByTheMeasuredSpeedWhereThereIsOne) {
  const Arguments planned = {"--dry-run", "--gemm-algorithm-cache", (folder_ / "gemm").string()};
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr(" days at "))) << "nobody knows the speed of a CPU";
  const std::string text = output();
  const size_t begin = text.find(" on 1 x ") + 8;
  const std::string cpu = text.substr(begin, text.find(" (TP") - begin);
  const auto measured = [](const std::string& device, double bf16_tflops, double fp32_tflops) {
    nlohmann::json all = {{"device", device},           {"device_id", "of " + device},
                          {"measured_at", ""},          {"bf16_tflops", bf16_tflops},
                          {"fp32_tflops", fp32_tflops}, {"power_limit_w", nullptr},
                          {"power_w", nullptr},         {"sm_clock_mhz", nullptr}};
    for (const char* other :
         {"copy_gb_per_s", "triad_gb_per_s", "launch_us", "round_trip_us", "seconds"})
      all[other] = 1;
    return all;
  };
  const nlohmann::json file = {
      {"format", "weft-device-ceilings 1"},
      {"devices", {measured(cpu, 0.25, 0.5), measured("NVIDIA H200 (sm_90, 139 GiB)", 676.1, 50)}}};
  write_file_atomically(folder_ / "device-ceilings.json", file.dump());
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" days at 60 % of the 0.5 TFLOP/s that were measured\n"));
  const auto on = [&](const char* profile) {
    return with(arguments("run", 30, planned),
                {"--bf16", "--kv-channels", "64", "--device-profile", profile});
  };
  ASSERT_EQ(run(on("h200")), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" days at 60 % of the 676.1 TFLOP/s that were measured\n"));
  ASSERT_EQ(run(on("h100")), 0) << output();
  EXPECT_THAT(output(), HasSubstr(" days at 40 % of 989.4 TFLOP/s\n"));
}

TEST_F(Training, DryRunPlansTheSlotsThatTheLoadersTake) {
  const auto line = [this] {
    const std::string text = output();
    const size_t begin = text.find(" > slots of the data loaders: ");
    return begin == std::string::npos ? "none" : text.substr(begin, text.find('\n', begin) - begin);
  };
  const Arguments longer = {"--seq-length", "512", "--max-position-embeddings", "512"};
  for (Arguments more :
       {Arguments{}, Arguments{"--eod-mask-loss"}, Arguments{"--full-validation"},
        Arguments{"--eval-iters", "0"}, Arguments{"--dataloader-inter-document-masking"}}) {
    more.insert(more.end(), longer.begin(), longer.end());
    Arguments planned = more;
    planned.insert(planned.end(), {"--dry-run", "--verbose"});
    ASSERT_EQ(run(arguments("run", 4, planned)), 0) << output();
    const std::string plan = line();
    EXPECT_THAT(plan, testing::HasSubstr("MiB of pinned host memory (train "));
    ASSERT_EQ(run(arguments("run", 4, more)), 0) << output();
    EXPECT_EQ(line(), plan) << more[0];
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(Training, DryRunPlansForAGpuThatIsNotHere) {
  const Arguments planned = {"--dry-run", "--verbose",     "--device-profile",
                             "h200",      "--kv-channels", "64"};
  ASSERT_EQ(run(arguments("run", 30, planned)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("> device: NVIDIA H200 (139.81 GiB; --device-profile h200)"));
  EXPECT_THAT(output(),
              HasSubstr("> attention: there are no flash kernels in fp32: the scores of "));
  Arguments large =
      with(arguments("run", 30, planned), {"--num-layers", "96", "--hidden-size", "12288",
                                           "--num-attention-heads", "96", "--kv-channels", "128"});
  EXPECT_EQ(run(large), 9) << output();
  EXPECT_THAT(output(), HasSubstr(" GiB on NVIDIA H200, which has 139.28 GiB free"));
  EXPECT_THAT(output(),
              HasSubstr("no option that saves memory makes it fit: lower --micro-batch-size"));
  EXPECT_THAT(output(), HasSubstr("or share it among more ranks: with full recomputation"));
  EXPECT_THAT(output(), Not(HasSubstr("NCCL")));
  Arguments ranks = with(planned, {"--tensor-model-parallel-size", "2"});
  ASSERT_EQ(run(arguments("run", 30, ranks)), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr(" > NCCL: about 672 MiB more on each device, 672 for each of 1 groups"));
  EXPECT_EQ(run(arguments("run", 30, {"--device-profile", "h200"})), 2) << "it is for --dry-run";
  Arguments alibi = with(planned, {"--bf16", "--position-embedding-type", "alibi"});
  EXPECT_EQ(run(arguments("run", 30, alibi)), 0) << output();
  EXPECT_THAT(output(), Not(HasSubstr("> attention: ")));
  Arguments odd = with(planned, {"--kv-channels", "145"});
  EXPECT_EQ(run(arguments("run", 30, odd)), 0) << output();
  EXPECT_THAT(output(),
              HasSubstr("\n> attention: there are no flash kernels for heads of 145, but for "
                        "multiples of 8 up to 160: the scores of "));
}

// A file of one's own may tell how much memory of the host each GPU has.
TEST_F(Training, DryRunPlansTheHostOfAGpuThatIsNotHere) {
  const auto planned = [this](int64_t device_mib, int64_t host_mib, const Arguments& more) {
    const std::string profile = (folder_ / "profile").string();
    std::ofstream(profile) << "name X\nmemory_mib " << device_mib << "\nhost_memory_mib "
                           << host_mib << "\n";
    return run(with(arguments("run", 30,
                              {"--dry-run", "--device-profile", profile, "--kv-channels", "64",
                               "--hidden-size", "1024", "--num-layers", "24"}),
                    more));
  };
  EXPECT_EQ(planned(3000, 4000, {}), 9) << output();
  EXPECT_THAT(output(), HasSubstr("--optimizer-offload ("));
  EXPECT_EQ(planned(3000, 4000, {"--optimizer-offload"}), 0) << output();
  EXPECT_EQ(planned(3000, 1000, {}), 9) << output();
  EXPECT_THAT(output(), HasSubstr("; --optimizer-offload would take 1.6"));
  EXPECT_EQ(planned(3000, 1000, {"--optimizer-offload"}), 9) << output();
  EXPECT_THAT(output(), HasSubstr("GiB of its host's memory, and host_memory_mib of"));
}

TEST_F(Training, DryRunPlansForRanksAndDataThatAreNotHere) {
  Arguments planned = words(
      "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --kv-channels 64 "
      "--seq-length 16 --max-position-embeddings 16 --micro-batch-size 2 "
      "--global-batch-size 48 --train-iters 10 --lr 1e-3 --dry-run --verbose --device-profile "
      "h100 --tensor-model-parallel-size 2 --vocab-size 100 --eod-mask-loss "
      "--world-size 12");
  ASSERT_EQ(run(planned), 0) << output();
  EXPECT_THAT(output(), HasSubstr("using world size: 12, data-parallel-size: 6, "));
  EXPECT_THAT(output(), HasSubstr(" > no dataset is named: the index of the samples is not"));
  EXPECT_THAT(output(), HasSubstr(" in the 7680 tokens of the run; 12 devices of 100 TFLOP/s"));
  planned.back() = "13";
  EXPECT_EQ(run(planned), 2);
  EXPECT_THAT(output(), HasSubstr("the number of ranks, 13, is not a multiple of"));
  planned.back() = "0";
  EXPECT_EQ(run(planned), 2);
  EXPECT_THAT(output(), HasSubstr("--world-size must be positive (got 0)"));
  EXPECT_EQ(run(arguments("run", 30, {"--world-size", "2"})), 2);
  EXPECT_THAT(output(), HasSubstr("--world-size 2 needs --dry-run: the ranks that train are"));
}

}  // namespace
}  // namespace weft
