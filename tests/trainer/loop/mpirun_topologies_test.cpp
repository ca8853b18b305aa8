// Tensor-parallel ranks that mpirun starts: they train what one process trains, twice alike, over a
// restart, and from each other's checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr int64_t kLong = 200;

class Topologies : public Ranks {
 protected:
  using List = Arguments;
  static inline const List kTp2 = {"--tensor-model-parallel-size", "2"};
  static inline const List kTp2Shared = {"--tensor-model-parallel-size", "2", "--sequence-parallel",
                                         "--use-distributed-optimizer"};
  static inline const List kTp4 = {"--tensor-model-parallel-size", "4", "--sequence-parallel"};

  // Dropout, four heads, and a vocabulary whose padding differs by topology.
  Arguments model(const std::string& run, int64_t num_iterations,
                  const Arguments& more = {}) const {
    return arguments(run, num_iterations,
                     with({"--num-attention-heads", "4", "--vocab-size", "67",
                           "--make-vocab-size-divisible-by", "8", "--lr", "2e-3", "--save-interval",
                           std::to_string(num_iterations), "--eval-interval", "100"},
                          more));
  }
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy(folder_ / from, folder_ / to, std::filesystem::copy_options::recursive);
  }
};

TEST_F(Topologies, TwoHundredStepsAreThoseOfOneProcess) {
  ASSERT_EQ(run(model("one", kLong)), 0) << output();
  ASSERT_EQ(run_ranks(2, model("tp2", kLong, kTp2)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("data-parallel-size: 1, tensor-model-parallel size: 2"));
  EXPECT_THAT(output(), HasSubstr("model parallel rank (1, 0): "));
  expect_near("tp2", "one");
  ASSERT_EQ(
      run_ranks(4, model("tp2dp2", kLong, with(kTp2Shared, {"--check-weights-interval", "50"}))), 0)
      << output();
  EXPECT_EQ(count(output(), ">>> Weight hashes match after "), 4U) << output();
  expect_near("tp2dp2", "one");
}

TEST_F(Topologies, InBf16Too) {
  // Token 63 ends documents: its row has no loss.
  const Arguments bf16 = {"--bf16", "--vocab-size", "64", "--eod-mask-loss"};
  ASSERT_EQ(run(model("one", kLong, bf16)), 0) << output();
  ASSERT_EQ(run_ranks(2, model("tp2", kLong, with(kTp2, bf16))), 0) << output();
  expect_near("tp2", "one", 1e-2);
  ASSERT_EQ(run_ranks(4, model("tp2dp2", kLong, with(kTp2Shared, bf16))), 0) << output();
  expect_near("tp2dp2", "one", 1e-2);

  const Arguments broken = model("broken", kLong, with(kTp2Shared, bf16));
  ASSERT_EQ(run_ranks(4, with(broken, {"--exit-interval", "150"})), 0) << output();
  ASSERT_EQ(run_ranks(4, broken), 0) << output();
  EXPECT_EQ(trajectory("broken"), trajectory("tp2dp2")) << "one topology, equal bits";
}

// Ranks that share a tensor share its scale, which comes from the largest number that any of them
// has seen.
TEST_F(Topologies, InFp8Too) {
  const Arguments fp8 = {"--bf16", "--fp8-format", "hybrid", "--fp8-amax-history-len", "3"};
  const Arguments stages = {"--pipeline-model-parallel-size", "2", "--tensor-model-parallel-size",
                            "2"};
  ASSERT_EQ(run(model("one", 40, fp8)), 0) << output();
  ASSERT_EQ(run_ranks(4, model("straight", 40, with(kTp2Shared, fp8))), 0) << output();
  expect_near("straight", "one", 3e-2);
  ASSERT_EQ(
      run_ranks(4, model("broken", 40, with(with(kTp2Shared, fp8), {"--exit-interval", "20"}))), 0)
      << output();
  for (const char* name : {"alone", "stages"}) copy("broken", name);
  ASSERT_EQ(run_ranks(4, model("broken", 40, with(kTp2Shared, fp8))), 0) << output();
  expect_equal_runs("broken", "straight");
  ASSERT_EQ(run(model("alone", 40, fp8)), 0) << output();
  expect_near("alone", "straight", 3e-2);
  ASSERT_EQ(run_ranks(4, model("stages", 40, with(stages, fp8))), 0) << output();
  expect_near("stages", "straight", 3e-2);
}

TEST_F(Topologies, GoOnToTheBitAndFromEachOthersCheckpoints) {
  ASSERT_EQ(run_ranks(4, model("straight", 40, kTp2Shared)), 0) << output();
  ASSERT_EQ(run_ranks(4, model("broken", 40, with(kTp2Shared, {"--exit-interval", "20"}))), 0)
      << output();
  EXPECT_EQ(tracker("broken"), "20");
  for (const char* name : {"alone", "dp4", "tp4"}) copy("broken", name);

  ASSERT_EQ(run_ranks(4, model("broken", 40, kTp2Shared)), 0) << output();
  expect_equal_runs("broken", "straight");

  expect_exports("broken");

  ASSERT_EQ(run(model("alone", 40)), 0) << output();
  expect_near("alone", "straight");
  ASSERT_EQ(run_ranks(4, model("dp4", 40)), 0) << output();
  expect_near("dp4", "straight");
  ASSERT_EQ(run_ranks(4, model("tp4", 40, kTp4)), 0) << output();
  expect_near("tp4", "straight");
}

TEST_F(Topologies, SizesThatDoNotDivideAreRefusedOnce) {
  EXPECT_EQ(run_ranks(3, model("usage", 5, {"--tensor-model-parallel-size", "3"})), 2);
  EXPECT_EQ(count(output(), "error: --num-attention-heads 4 is not a multiple of "), 1U)
      << output();
  EXPECT_EQ(run_ranks(3, model("usage", 5, kTp2)), 2);
  EXPECT_THAT(output(), HasSubstr("start a multiple of 2 (mpirun -n 2 ...)"));
  EXPECT_EQ(run(model("usage", 5, with(kTp2, {"--dry-run"}))), 0) << output();
  EXPECT_THAT(output(), HasSubstr("each of 2 ranks plans the same memory"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "usage"));
}

}  // namespace
}  // namespace weft
