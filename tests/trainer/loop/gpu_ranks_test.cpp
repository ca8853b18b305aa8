// Ranks on GPUs: several that share one through pinned memory, and with two GPUs over NCCL. They
// train what one process trains, twice alike, over a restart, and from each other's checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tests/needs_gpu.h"
#include "tests/trainer/mpirun_ranks.h"
#include "tests/trainer/profile_of_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int64_t kSteps = 30;

class GpuRanks : public Ranks {
 protected:
  // Dropout, four heads of 64, and a vocabulary whose padding differs by topology.
  Arguments model(const std::string& run, const Arguments& more = {}) const {
    const Arguments all = words(
        "--device cuda --hidden-size 256 --num-attention-heads 4 --vocab-size 67 "
        "--make-vocab-size-divisible-by 8 --lr 5e-4 --min-lr 5e-5 --save-interval 10 "
        "--eval-interval 15 --gemm-algorithm-cache " +
        (folder_ / "gemm").string());
    return arguments(run, kSteps, with(all, more));
  }
  void expect_topologies(const Arguments& backend) {
    const Arguments tp2 = with(backend, {"--tensor-model-parallel-size", "2"});
    const Arguments shared = {"--sequence-parallel", "--use-distributed-optimizer"};
    ASSERT_EQ(run(model("one")), 0) << output();
    ASSERT_EQ(run_ranks(2, model("dp2 sharded", with(backend, {"--use-distributed-optimizer",
                                                               "--check-weights-interval", "10",
                                                               "--ddp-bucket-size", "100000"}))),
              0)
        << output();
    expect_near("dp2 sharded", "one", 1e-4);
    ASSERT_EQ(run_ranks(2, model("tp2", tp2)), 0) << output();
    expect_near("tp2", "one", 1e-4);
    const Arguments sp = with(tp2, shared);
    ASSERT_EQ(run_ranks(2, model("sp2", with(sp, {"--check-weights-interval", "10"}))), 0)
        << output();
    expect_near("sp2", "one", 1e-4);
    ASSERT_EQ(run_ranks(2, model("sp2 again", with(sp, {"--exit-interval", "20"}))), 0) << output();
    ASSERT_EQ(run_ranks(2, model("sp2 again", with(sp, {"--async-save"}))), 0) << output();
    EXPECT_EQ(trajectory("sp2 again"), trajectory("sp2")) << "one topology, equal bits";
    const Arguments pp2 = with(backend, {"--pipeline-model-parallel-size", "2"});
    ASSERT_EQ(run_ranks(2, model("pp2", with(pp2, {"--check-weights-interval", "10"}))), 0)
        << output();
    expect_near("pp2", "one", 1e-4);
    ASSERT_EQ(run_ranks(2, model("pp2 again", with(pp2, {"--exit-interval", "20"}))), 0)
        << output();
    ASSERT_EQ(run_ranks(2, model("pp2 again", pp2)), 0) << output();
    EXPECT_EQ(trajectory("pp2 again"), trajectory("pp2")) << "one topology, equal bits";
  }
};

TEST_F(GpuRanks, ThroughPinnedMemoryTrainWhatOneProcessTrains) {
  expect_topologies({"--distributed-backend", "mpi"});
  EXPECT_THAT(output(), HasSubstr("tensors travel by MPI, through pinned memory"));
}

TEST_F(GpuRanks, ThroughPinnedMemoryInBf16) {
  const Arguments four = {"--distributed-backend",        "mpi",
                          "--tensor-model-parallel-size", "2",
                          "--sequence-parallel",          "--use-distributed-optimizer"};
  ASSERT_EQ(run(model("one", {"--bf16"})), 0) << output();
  ASSERT_EQ(run_ranks(4, model("tp2dp2", with({"--bf16"}, four))), 0) << output();
  expect_near("tp2dp2", "one", 1e-2);
  ASSERT_EQ(run_ranks(4, model("tp2pp2", with(with({"--bf16"}, four),
                                              {"--pipeline-model-parallel-size", "2"}))),
            0)
      << output();
  expect_near("tp2pp2", "one", 1e-2);
}

// A background save copies the optimizer's state from pinned memory to pinned memory, while the GPU
// goes on with the next step.
TEST_F(GpuRanks, SaveStateOnTheHostInTheBackgroundWithTheSameBits) {
  for (const Arguments& precision :
       {Arguments{"--bf16"}, {"--bf16", "--bf16-optimizer-state"}, {"--fp16"}}) {
    const std::string kind = precision.back();
    const Arguments two =
        with(precision, {"--distributed-backend", "mpi", "--use-distributed-optimizer"});
    const Arguments offloaded = with(two, {"--optimizer-offload", "--async-save"});
    ASSERT_EQ(run_ranks(2, model("step" + kind, two)), 0) << output();
    ASSERT_EQ(run_ranks(2, model("parts" + kind, with(offloaded, {"--exit-interval", "20"}))), 0)
        << output();
    ASSERT_EQ(run_ranks(2, model("parts" + kind, offloaded)), 0) << output();
    EXPECT_EQ(trajectory("parts" + kind), trajectory("step" + kind));
    for (const char* file :
         {"iter_0000030/state_00000.safetensors", "iter_0000030/state_00001.safetensors"})
      EXPECT_EQ(read_file(folder_ / ("parts" + kind) / file),
                read_file(folder_ / ("step" + kind) / file));
  }
}

// The loss scale falls from 2^32 and grows every third step, until gradients overflow again.
TEST_F(GpuRanks, InFp16SkipTheStepsThatCpusSkip) {
  const Arguments fp16 = {"--fp16", "--loss-scale-window", "3"};
  ASSERT_EQ(run(model("one", fp16)), 0) << output();
  ASSERT_EQ(run(model("cpu", with(fp16, {"--device", "cpu"}))), 0) << output();
  expect_near("cpu", "one", 1e-2);
  std::vector<std::vector<double>> scales;
  for (const char* name : {"one", "cpu"}) {
    scales.emplace_back();
    for (const nlohmann::json& line : metrics(name))
      if (line.contains("lm_loss")) scales.back().push_back(line.at("loss_scale"));
  }
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_LT(scales[0][8], scales[0].front()) << "it falls";
  for (int part = 0; part < 3; ++part)
    ASSERT_EQ(run(model("parts", with(fp16, {"--exit-interval", "10"}))), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("one"));
  const Arguments four = {"--distributed-backend",        "mpi",
                          "--tensor-model-parallel-size", "2",
                          "--sequence-parallel",          "--use-distributed-optimizer"};
  ASSERT_EQ(run_ranks(4, model("tp2dp2", with(fp16, four))), 0) << output();
  expect_near("tp2dp2", "one", 1e-2);
}

// A profile must not change a bit, and must account for the whole step on the real streams.
TEST_F(GpuRanks, AProfileOfOneGpuTellsTheWholeStepBesideItsCeilings) {
  const Arguments measure = {
      "--measure-device",       "--measure-device-seconds", "1", "--device", "cuda",
      "--gemm-algorithm-cache", (folder_ / "gemm").string()};
  ASSERT_EQ(run(measure), 0) << output();
  EXPECT_THAT(output(), HasSubstr("bf16 products of 8192 x 8192 x 8192 for 1 s: "));
  ASSERT_EQ(run(model("plain", {"--bf16"})), 0) << output();
  ASSERT_EQ(run(model("profiled", {"--bf16", "--profile-steps", "16:20"})), 0) << output();
  EXPECT_EQ(trajectory("profiled"), trajectory("plain"));
  const nlohmann::json rank = profiles_of_run(folder_ / "profiled", "16_20")[0];
  expect_whole_step(rank);
  EXPECT_TRUE(rank.at("nvtx_ranges"));
  EXPECT_GT(rank.at("ceilings").at("bf16_tflops"), 50);
  EXPECT_GT(rank.at("ceilings").at("copy_gb_per_s"), 100);
  const nlohmann::json qkv = line_of(rank, "linear_forward N=32 O=768 I=256 bf16");
  EXPECT_EQ(qkv.at("calls"), 8);
  EXPECT_GT(qkv.at("ceiling_ms"), 0);
  EXPECT_EQ(line_of(rank, "adamw").at("calls"), 1);
}

TEST_F(GpuRanks, AProfileTellsWhatGoesThroughPinnedMemory) {
  const Arguments two = {"--distributed-backend", "mpi", "--tensor-model-parallel-size", "2"};
  ASSERT_EQ(run_ranks(2, model("plain", two)), 0) << output();
  ASSERT_EQ(run_ranks(2, model("profiled", with(two, {"--profile-steps", "16:17"}))), 0)
      << output();
  EXPECT_EQ(trajectory("profiled"), trajectory("plain"));
  for (const nlohmann::json& rank : profiles_of_run(folder_ / "profiled", "16_17")) {
    expect_whole_step(rank);
    EXPECT_GT(line_of(rank, "all_reduce").at("gb_per_s"), 0);
  }
}

TEST_F(GpuRanks, WithOneGpuNeedAnotherBackendOrFewerRanks) {
  const int num_devices = num_cuda_devices();
  const std::string batch = std::to_string(4 * (num_devices + 1));
  EXPECT_EQ(run_ranks(num_devices + 1, model("many", {"--global-batch-size", batch})), 2)
      << output();
  EXPECT_THAT(output(), HasSubstr("have the same GPU (GPU-"));
  EXPECT_THAT(output(), HasSubstr("--distributed-backend mpi"));
}

// NCCL needs a GPU for each rank.
class NcclRanks : public GpuRanks {
 protected:
  void SetUp() override {
    GpuRanks::SetUp();
    need_gpus(2);
  }
  static void need_gpus(int count) {
    if (num_cuda_devices() >= count) return;
    if (test::num_promised_gpus() >= count) {
      FAIL() << "WEFT_REQUIRE_GPU promises " << count << " GPUs; found: " << num_cuda_devices();
    }
    GTEST_SKIP() << "NCCL needs a GPU for each rank: " << count << " GPUs";
  }
};

TEST_F(NcclRanks, TrainWhatOneProcessTrains) {
  expect_topologies({});
  EXPECT_THAT(output(), HasSubstr("tensors travel by NCCL 2."));
}

TEST_F(NcclRanks, TrainWhatOneProcessTrainsInBf16) {
  ASSERT_EQ(run(model("one", {"--bf16"})), 0) << output();
  ASSERT_EQ(run_ranks(2, model("dp2", {"--bf16"})), 0) << output();
  expect_near("dp2", "one", 1e-2);
  ASSERT_EQ(run_ranks(2, model("sp2", {"--bf16", "--tensor-model-parallel-size", "2",
                                       "--sequence-parallel"})),
            0)
      << output();
  expect_near("sp2", "one", 1e-2);
}

TEST_F(NcclRanks, AProfileTellsWhatIsExposedOfTheirCollectives) {
  const Arguments topology = {"--use-distributed-optimizer", "--ddp-bucket-size", "100000"};
  ASSERT_EQ(run_ranks(2, model("plain", topology)), 0) << output();
  ASSERT_EQ(run_ranks(2, model("profiled", with(topology, {"--profile-steps", "16:20"}))), 0)
      << output();
  EXPECT_EQ(trajectory("profiled"), trajectory("plain"));
  for (const nlohmann::json& rank : profiles_of_run(folder_ / "profiled", "16_20")) {
    expect_whole_step(rank);
    for (const char* collective : {"reduce_scatter", "all_gather", "all_reduce"}) {
      const nlohmann::json line = line_of(rank, collective);
      ASSERT_FALSE(line.empty()) << collective;
      EXPECT_LE(line.at("exposed_ms").get<double>(), line.at("ms").get<double>() * 1.001);
    }
  }
}

// The other rank is in a sum that the failing one will never join.
TEST_F(NcclRanks, AFailureOfOneEndsAllWithItsCode) {
  const Arguments failing = make_second_rank_fail_at(20);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_ranks(2, model("failed", failing)), 3) << output();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "a hang";
  EXPECT_EQ(count(output(), "error: rank 1 ("), 1U) << output();
  EXPECT_THAT(output(), HasSubstr("holds token id 65535"));
  EXPECT_EQ(failure("failed").at("exit_code"), 3) << output();
}

TEST_F(NcclRanks, AllEndWhenOneIsKilledInTheMiddleOfAStep) {
  const pid_t mpirun =
      start_ranks(2, model("killed", {"--train-iters", "1000000", "--save-interval", "1000000",
                                      "--eval-interval", "1000000"}));
  wait_for_iteration("killed", 50, mpirun);
  const std::vector<pid_t> ranks = ranks_of(mpirun);
  ASSERT_EQ(ranks.size(), 2U);
  const auto start = std::chrono::steady_clock::now();
  kill(ranks[1], SIGKILL);
  EXPECT_NE(wait(mpirun), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << "a hang";
  EXPECT_EQ(failure("killed").at("exit_code"), 13) << output();
}

TEST_F(NcclRanks, ThatStandStillAreNamed) {
  const pid_t mpirun = start_ranks(
      2, model("stopped", {"--train-iters", "1000000", "--save-interval", "1000000",
                           "--eval-interval", "1000000", "--distributed-timeout-minutes", "0.1"}));
  wait_for_iteration("stopped", 50, mpirun);
  const std::vector<pid_t> ranks = ranks_of(mpirun);
  ASSERT_EQ(ranks.size(), 2U);
  kill(ranks[1], SIGSTOP);
  EXPECT_NE(wait(mpirun), 0);
  EXPECT_EQ(failure("stopped").at("exit_code"), 12) << output();
  EXPECT_THAT(failure("stopped").at("reason").get<std::string>(), HasSubstr("rank 1"));
}

class FourNcclRanks : public NcclRanks {
 protected:
  void SetUp() override {
    NcclRanks::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) need_gpus(4);
  }
};

TEST_F(FourNcclRanks, TrainWhatOneProcessTrainsTwiceAlike) {
  const Arguments buckets = {"--use-distributed-optimizer", "--ddp-bucket-size", "100000"};
  const Arguments tp2 = with(buckets, {"--tensor-model-parallel-size", "2"});
  ASSERT_EQ(run(model("one")), 0) << output();
  for (const auto& [name, topology] :
       {std::pair<std::string, Arguments>{"dp4", {}},
        {"dp4 sharded", buckets},
        {"tp2dp2", tp2},
        {"sp2dp2", with(tp2, {"--sequence-parallel"})},
        {"tp4", {"--tensor-model-parallel-size", "4"}},
        {"tp2pp2", with(tp2, {"--pipeline-model-parallel-size", "2"})},
        {"pp2dp2", with(buckets, {"--pipeline-model-parallel-size", "2"})},
        {"pp4", {"--pipeline-model-parallel-size", "4", "--pp-partition-method", "0,1,1,0"}}}) {
    ASSERT_EQ(run_ranks(4, model(name, topology)), 0) << output();
    expect_near(name, "one", 1e-4);
    ASSERT_EQ(run_ranks(4, model(name + " again", topology)), 0) << output();
    EXPECT_EQ(trajectory(name + " again"), trajectory(name)) << "one topology, equal bits";
  }
}

// With tensor parallelism stages exchange a share of each tensor, unless its rows are shared
// anyway.
TEST_F(FourNcclRanks, WithInterleavedStagesTrainWhatOneProcessTrains) {
  const Arguments deep = {"--num-layers", "8", "--global-batch-size", "16"};
  const Arguments virtual_stages = {"--num-layers-per-virtual-pipeline-stage", "1"};
  const Arguments pp2 = with(virtual_stages, {"--pipeline-model-parallel-size", "2"});
  const Arguments tp2pp2 = with(pp2, {"--tensor-model-parallel-size", "2"});
  ASSERT_EQ(run(model("one", deep)), 0) << output();
  for (const auto& [name, topology] :
       {std::pair<std::string, Arguments>{
            "pp4", with(virtual_stages, {"--pipeline-model-parallel-size", "4"})},
        {"tp2pp2", tp2pp2},
        {"whole tensors", with(tp2pp2, {"--no-scatter-gather-tensors-in-pipeline"})},
        {"sp2pp2", with(tp2pp2, {"--sequence-parallel"})},
        {"pp2dp2", with(pp2, {"--use-distributed-optimizer", "--ddp-bucket-size", "100000"})}}) {
    ASSERT_EQ(run_ranks(4, model(name, with(deep, topology))), 0) << output();
    expect_near(name, "one", 1e-4);
  }
  EXPECT_EQ(trajectory("whole tensors"), trajectory("tp2pp2"));
  ASSERT_EQ(run_ranks(4, model("again", with(with(deep, tp2pp2), {"--exit-interval", "20"}))), 0)
      << output();
  ASSERT_EQ(run_ranks(4, model("again", with(deep, tp2pp2))), 0) << output();
  EXPECT_EQ(trajectory("again"), trajectory("tp2pp2")) << "one topology, equal bits";
}

// An overflow on one rank is a skipped step of all.
TEST_F(FourNcclRanks, InFp16SkipTheStepsThatOneProcessSkips) {
  const Arguments fp16 = {"--fp16", "--loss-scale-window", "3"};
  const Arguments pp2 = with(fp16, {"--pipeline-model-parallel-size", "2"});
  const Arguments tp2pp2 = with(pp2, {"--tensor-model-parallel-size", "2", "--sequence-parallel"});
  ASSERT_EQ(run(model("one", fp16)), 0) << output();
  const auto scales = [&](const std::string& name) {
    std::vector<double> all;
    for (const nlohmann::json& line : metrics(name))
      if (line.contains("lm_loss")) all.push_back(line.at("loss_scale"));
    return all;
  };
  EXPECT_LT(scales("one")[8], scales("one").front()) << "it falls";
  for (const auto& [name, topology] : {std::pair<std::string, Arguments>{"tp2pp2", tp2pp2},
                                       {"pp2dp2", with(pp2, {"--use-distributed-optimizer"})}}) {
    ASSERT_EQ(run_ranks(4, model(name, topology)), 0) << output();
    expect_near(name, "one", 1e-2);
    EXPECT_EQ(scales(name), scales("one")) << name;
  }
  for (int part = 0; part < 3; ++part)
    ASSERT_EQ(run_ranks(4, model("parts", with(tp2pp2, {"--exit-interval", "10"}))), 0) << output();
  EXPECT_EQ(trajectory("parts"), trajectory("tp2pp2"));
}

TEST_F(FourNcclRanks, GoOnFromTheCheckpointsOfOtherTopologies) {
  const Arguments layers = {"--num-layers", "4"};
  const Arguments pp2 = with(layers, {"--pipeline-model-parallel-size", "2"});
  const Arguments tp2pp2 = with(pp2, {"--tensor-model-parallel-size", "2"});
  ASSERT_EQ(run(model("one", layers)), 0) << output();
  for (const auto& [name, topology] :
       {std::pair<std::string, Arguments>{"dp4", with(layers, {"--use-distributed-optimizer"})},
        {"pp4", with(layers, {"--pipeline-model-parallel-size", "4"})},
        {"interleaved", with(pp2, {"--num-layers-per-virtual-pipeline-stage", "1",
                                   "--use-distributed-optimizer"})}}) {
    ASSERT_EQ(run_ranks(4, model(name, with(tp2pp2, {"--exit-interval", "20"}))), 0) << output();
    ASSERT_EQ(run_ranks(4, model(name, topology)), 0) << output();
    expect_near(name, "one", 1e-4);
  }
}

}  // namespace
}  // namespace weft
