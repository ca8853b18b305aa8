// The work between the command line and the first step: dataset sizes, memory, the run manifest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/ranks/thread_ranks.h"
#include "tests/trainer/small_run.h"
#include "trainer/data/loader_plan.h"
#include "trainer/log/banner.h"
#include "trainer/log/run_manifest.h"
#include "trainer/plan/limits.h"
#include "trainer/plan/train_setup.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Sizes that Megatron-LM printed: 146484375 samples, batch 288, evaluation of 40 batches every 1000
// steps.
TEST(TargetSizes, MatchMegatron) {
  Config config = base_config();
  config.train_iters.reset();
  config.train_samples = 146484375;
  config.micro_batch_size = 1;
  config.global_batch_size = 288;
  config.eval_iters = 40;
  config.eval_interval = 1000;
  const DatasetTargetSizes sizes = target_sizes(config, BatchSchedule(config));
  EXPECT_EQ(sizes.train_samples, 146484375);
  EXPECT_EQ(sizes.valid_samples, 5863680);
  EXPECT_EQ(sizes.test_samples, 11520);
}

// tr11's ramp-up lasts 115311 iterations: 116 validations.
TEST(TargetSizes, FollowTheRampUp) {
  Config config = base_config();
  config.train_iters.reset();
  config.train_samples = 220'000'000;
  config.micro_batch_size = 1;
  config.global_batch_size = 2048;
  config.rampup_batch_size = {192, 16, 9'765'625};
  config.eval_iters = 1;
  config.eval_interval = 1000;
  EXPECT_EQ(target_sizes(config, BatchSchedule(config)).valid_samples, 116 * 2048);
}

const MemoryAdvice kNoAdvice = [](int64_t) { return std::string(); };

TEST(Memory, APlanLargerThanTheDeviceIsRefusedWithBothNumbers) {
  const auto backend = create_cpu_backend(1);
  MemoryPlan plan;
  Tensor tensor;
  plan.add(MemoryClass::kParameters, "huge", &tensor, DType::kFloat32, {int64_t{1} << 50});
  EXPECT_THROW(check_memory(plan, *backend, {}, kNoAdvice), LimitExceeded);
}

TEST(Memory, ASnapshotThatDoesNotFitIntoTheHostIsRefusedWithBothNumbers) {
  check_snapshot_memory(int64_t{3} << 30, int64_t{3} << 30, "node3");
  try {
    check_snapshot_memory(int64_t{3} << 30, int64_t{2} << 30, "node3");
    FAIL() << "no exception";
  } catch (const LimitExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("--async-save needs 3.00 GiB of memory on node3"));
    EXPECT_THAT(error.what(), HasSubstr("2.00 GiB are free"));
  }
}

// Each of three ranks would fit, but they share their host's memory.
TEST(Memory, TheRanksOfAHostAreAddedUp) {
  run_ranks(3, [](HostGroup& ranks) {
    const int64_t gib = int64_t{1} << 30;
    EXPECT_NO_THROW(check_memory_of_hosts(ranks, 2 * gib, 6 * gib));
    // The one that looked last sees least.
    const int64_t seen_free = (ranks.rank() == 2 ? 5 : 8) * gib;
    try {
      check_memory_of_hosts(ranks, 2 * gib, seen_free);
      ADD_FAILURE() << "no exception";
    } catch (const LimitExceeded& error) {
      EXPECT_THAT(error.what(), HasSubstr("the 3 ranks on " + ranks.host_of(0) +
                                          " need 6.00 GiB of its memory together"));
      EXPECT_THAT(error.what(), HasSubstr("5.00 GiB are free"));
    }
  });
}

TEST(Memory, TheIndexOfTheSamplesIsCountedBySamplesAndEpochs) {
  const DatasetIdentity dataset{
      .prefix = "p", .num_documents = 100, .num_sequences = 100, .num_tokens = 10'000};
  EXPECT_EQ(sample_index_bytes({}, {&dataset, 1}, 100), 4 * 100);
  EXPECT_EQ(sample_index_bytes({.train_samples = 1000}, {&dataset, 1}, 100),
            4 * 100 * 11 + 12 * 1000);
  const auto backend = create_cpu_backend(1);
  EXPECT_THROW(check_memory(MemoryPlan(), *backend, {.index_bytes = int64_t{1} << 50}, kNoAdvice),
               LimitExceeded);
}

TEST(Memory, TheSlotsOfTheLoadersAreCountedByGroup) {
  Config config = base_config();
  config.paths.data_path.clear();
  config.paths.train_weighted_split_paths = {"t: 1 0:1 t"};
  config.paths.valid_weighted_split_paths = {"a: 1 0:1 p", "b: 1 0:1 q"};
  config.micro_batch_size = 2;
  config.global_batch_size = 16;
  config.seq_length = 100;
  config.world_size = 2;
  const auto bytes = [&](int64_t rows, int64_t arrays) { return 4 * 4 * 100 * rows * arrays; };
  const DatasetTargetSizes sizes{.train_samples = 100, .valid_samples = 10, .test_samples = 0};
  LoaderPlan plan = plan_loaders(config, 32, sizes);
  EXPECT_EQ(plan.train_bytes, bytes(16, 2)) << "half of the largest batch";
  EXPECT_EQ(plan.valid_bytes, 2 * bytes(8, 2));
  EXPECT_EQ(plan.test_bytes, 0);
  EXPECT_EQ(plan.num_loaders, 3);
  EXPECT_EQ(plan.num_threads(2), 9);
  config.unsee = "f";
  config.full_validation = true;
  config.reset_attention_mask = true;
  plan = plan_loaders(config, 32, sizes);
  EXPECT_EQ(plan.train_bytes, bytes(16, 5));
  EXPECT_EQ(plan.valid_bytes, 2 * bytes(8, 5));
  const auto backend = create_cpu_backend(1);
  EXPECT_THAT(
      [&] { check_memory(MemoryPlan(), *backend, {.slot_bytes = int64_t{1} << 50}, kNoAdvice); },
      testing::ThrowsMessage<LimitExceeded>(HasSubstr("slots of the data loaders")));
}

TEST(RunManifest, HoldsTheArgumentsThatMapIterationsToSamples) {
  const TemporaryFolder folder;
  Config config = base_config();
  config.fill_defaults();
  write_run_manifest(folder / "run", {.config = config,
                                      .device = "CPU",
                                      .run_id = "0a",
                                      .dataset_prefix = "/data/p",
                                      .data = data_of_run(),
                                      .padded_vocabulary_size = 128,
                                      .num_parameters = 5,
                                      .num_iterations = 10,
                                      .train_samples = 80,
                                      .valid_samples = 3,
                                      .test_samples = 2,
                                      .resumed_iteration = 0});
  const std::string text = read_file(folder / "run/run_manifest.json");
  for (const char* field :
       {"\"arguments\": {", "\"dataset_prefix\": \"/data/p\"", "\"global_batch_size\": 8",
        "\"seq_length\": 16", "\"train_iters\": 10", "\"train_samples\": null",
        "\"split\": \"969, 30, 1\"", "\"documents\": 3", "\"sha256\": \"aa\"", "\"seed\": 1234",
        "\"eval_interval\": 1000"}) {
    EXPECT_THAT(text, HasSubstr(field));
  }
}

TEST(Banner, StartsWithTheWorldAndNamesThePadding) {
  Config config = base_config();
  config.bf16 = true;
  config.fill_defaults();
  const std::string text = start_banner(
      config, {"--use-flash-attn has no effect: the head size chooses attention's kernels"},
      BatchSchedule(config), {50257, "vocab.json"});
  EXPECT_THAT(
      text, testing::StartsWith(
                "using world size: 1, data-parallel-size: 1, tensor-model-parallel size: 1, "
                "pipeline-model-parallel size: 1 \naccumulate and all-reduce gradients in fp32 for "
                "bfloat16 data type.\nusing bfloat16 for parameters ...\n"));
  EXPECT_THAT(text, HasSubstr("\nsetting number of micro-batches to constant 4\n"));
  EXPECT_THAT(
      text, HasSubstr("\n > padded vocab (size: 50257) with 47 dummy tokens (new size: 50304)\n"));
  EXPECT_THAT(text, HasSubstr("\n> setting random seeds to 1234 ...\n"));
}

}  // namespace
}  // namespace weft
