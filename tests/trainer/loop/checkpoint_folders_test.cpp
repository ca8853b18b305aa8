// A run knows which folders it may write, and which of the checkpoints in them is the newest whole
// one.
#include <gmock/gmock.h>

#include <csignal>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST_F(Training, AFolderThatCannotBeMadeIsNamedWithItsFlag) {
  write_file_atomically(folder_ / "file", "");
  EXPECT_EQ(run(arguments("file/run")), 4);
  EXPECT_THAT(output(), HasSubstr("error: --tensorboard-dir " + (folder_ / "file/run/tb").string() +
                                  ": cannot create this folder: Not a directory"));
}

TEST_F(Training, TwoRunsNeverSaveIntoOneFolder) {
  const pid_t first = start(arguments("run", 100'000));
  wait_for_iteration("run", 2, first);
  EXPECT_EQ(run(arguments("run")), 8) << output();
  EXPECT_THAT(output(), HasSubstr("is locked: process " + std::to_string(first)));
  kill(first, SIGKILL);
  EXPECT_EQ(wait(first), 128 + SIGKILL);
  // A killed run holds no lock.
  EXPECT_EQ(run(arguments("run", 100'000, {"--exit-interval", "1"})), 0) << output();
}

TEST_F(Training, OverwritesCheckpointsOnlyIfAsked) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  const auto before = metrics("run");
  const Arguments anew = arguments("run", 5, {"--load", (folder_ / "empty").string()});
  EXPECT_EQ(run(anew), 2) << output();
  EXPECT_THAT(output(), HasSubstr("run holds checkpoints, the newest of iteration 5"));
  EXPECT_EQ(run(arguments("run", 5, {"--finetune"})), 2) << "it would overwrite its own source";
  EXPECT_EQ(metrics("run"), before);
  Arguments asked = anew;
  asked.push_back("--overwrite");
  EXPECT_EQ(run(asked), 0) << output();
}

// A copy of a run that left the text files out has no tracker.
TEST_F(Training, WithoutATrackerTheNewestWholeCheckpointIsTaken) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  std::filesystem::remove(folder_ / "run/latest_checkpointed_iteration.txt");
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("of iteration 10, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, ATornCheckpointIsPassedOverForTheOneBeforeIt) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  const auto state = folder_ / "run/iter_0000010/state_00000.safetensors";
  std::filesystem::resize_file(state, std::filesystem::file_size(state) / 2);
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("iteration 10, which the tracker names, cannot be loaded"));
  EXPECT_THAT(output(), HasSubstr("of iteration 5, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, ACheckpointWithoutItsManifestIsPassedOverAndReplaced) {
  ASSERT_EQ(run(arguments("undisturbed", 20)), 0) << output();
  ASSERT_EQ(run(arguments("run", 20, {"--exit-interval", "10"})), 0) << output();
  std::filesystem::remove(folder_ / "run/iter_0000010/manifest.json");
  ASSERT_EQ(run(arguments("run", 20)), 0) << output();
  EXPECT_THAT(output(), HasSubstr("of iteration 5, is taken"));
  EXPECT_EQ(trajectory("run"), trajectory("undisturbed"));
}

TEST_F(Training, AFolderOfAnotherProgramIsNamedBeforeTheFirstStep) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  std::filesystem::create_directories(folder_ / "run/iter_0000100/mp_rank_00");
  EXPECT_EQ(run(arguments("run", 10)), 2) << output();
  EXPECT_THAT(output(), HasSubstr("iter_0000100 holds files, but no checkpoint of Weft"));
}

TEST_F(Training, LeftoversAreOnlyOurNames) {
  std::filesystem::create_directories(folder_ / "run/iter_notes.part");
  EXPECT_EQ(run(arguments("run", 5)), 0) << output();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/iter_notes.part"));
}

TEST_F(Training, FoldersOfAnotherProgramAreNotOverwritten) {
  std::filesystem::create_directories(folder_ / "run/iter_0000005/mp_rank_00");
  EXPECT_EQ(run(arguments("run", 5)), 3) << output();
  EXPECT_THAT(output(), HasSubstr("holds iter_0000005, but no checkpoint that can be loaded"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/iter_0000005/mp_rank_00"));
}

TEST_F(Training, PathsNeedNotBeUtf8) { EXPECT_EQ(run(arguments("run\xff", 5)), 0) << output(); }

}  // namespace
}  // namespace weft
