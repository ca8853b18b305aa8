// Runs that follow each other in one folder: stopped ones, other options, changed inputs, locks.
#include <algorithm>
#include <fstream>

#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/lock_file.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::Test;

class SameFolder : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 60'000, 1);
    add_input("b.jsonl.gz", 10'000, 2);
    make_reference();
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  RunEnd crashed() {
    RunEnd end = run(crash_at("dataset_finished"));
    EXPECT_TRUE(end.is_killed()) << end.message;
    return end;
  }
};

TEST_F(SameFolder, AStoppedRunIsExit10AndGoesOnWithAllThatItHadWritten) {
  for (int64_t percent = 0; percent < 100; percent += 12) {
    stop_at_ = percent * num_reference_documents_ / 100;
    const RunEnd stopped = run();
    stop_at_ = -1;
    if (percent > 0 && stopped.exit_code == 0) {  // all was seen at once: it was too late to stop
      EXPECT_TRUE(output() == reference_);
      remove_output();
      continue;
    }
    ASSERT_EQ(stopped.exit_code, 10) << stopped.message;
    EXPECT_FALSE(fs::exists(out_folder_ / "d.idx"));
    const RunEnd end = expect_rerun_completes("after a stop at " + std::to_string(percent) + " %");
    EXPECT_TRUE(has(end.notes, "going on with the work")) << end.notes;
    EXPECT_EQ(end.num_seen, num_reference_documents_) << "none is counted twice";
    remove_output();
  }
}

TEST_F(SameFolder, AFinishedRunIsThereAlready) {
  ASSERT_EQ(run().exit_code, 0);
  const RunEnd again = expect_rerun_completes("a finished run");
  EXPECT_TRUE(again.was_there);
  EXPECT_EQ(again.num_seen, 0);
  config_.overwrite = true;
  EXPECT_FALSE(expect_rerun_completes("--overwrite").was_there);
}

TEST_F(SameFolder, OtherOptionsAreRefusedWithTheDifference) {
  crashed();
  config_.rules.append_eod = true;
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_TRUE(has(end.message, "--append-eod: was false, is true")) << end.message;
  config_.rules.append_eod = false;
  EXPECT_TRUE(has(expect_rerun_completes("options as before").notes, "going on with"));
  config_.rules.append_eod = true;
  const RunEnd finished = run();
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_TRUE(has(finished.message, "--overwrite")) << finished.message;
  EXPECT_TRUE(output() == reference_);
}

TEST_F(SameFolder, OverwriteDropsTheWorkOfOthers) {
  config_.rules.append_eod = true;
  crashed();
  config_.rules.append_eod = false;
  config_.overwrite = true;
  EXPECT_FALSE(has(expect_rerun_completes("--overwrite").notes, "going on with"));
}

TEST_F(SameFolder, AChangedInputBeginsAnewWithANote) {
  const std::string text = read_file(path("a.jsonl"));
  std::ofstream(path("a.jsonl"), std::ios::binary) << "{\"text\": \"other\"}\n" << text;
  crashed();
  std::ofstream(path("a.jsonl"), std::ios::binary) << text;
  const RunEnd end = expect_rerun_completes("the input has changed");
  EXPECT_TRUE(has(end.notes, "is dropped: the input '")) << end.notes;
}

TEST_F(SameFolder, WorkOfOtherInputsIsNotDroppedUnasked) {
  crashed();
  const std::vector<std::string> inputs = config_.inputs;
  config_.inputs.pop_back();
  const RunEnd fewer = run();
  EXPECT_EQ(fewer.exit_code, 2);
  EXPECT_TRUE(has(fewer.message, "of other inputs (inputs: was ")) << fewer.message;
  config_.inputs = inputs;
  std::reverse(config_.inputs.begin(), config_.inputs.end());
  const RunEnd reversed = run();
  EXPECT_EQ(reversed.exit_code, 2);
  EXPECT_TRUE(has(reversed.message, "of other inputs (input 1: was ")) << reversed.message;
  config_.inputs = inputs;
  EXPECT_TRUE(has(expect_rerun_completes("inputs as before").notes, "going on with"));
}

TEST_F(SameFolder, AnInputThatChangesDuringTheRunIsAnError) {
  const fs::path input = path("a.jsonl");
  stop_at_ = num_reference_documents_ / 2;
  on_stop_ = [input] {
    // The same size: only the time tells.
    std::fstream file(input, std::ios::in | std::ios::out | std::ios::binary);
    file.put('{');
    file.close();
    fs::last_write_time(input, fs::last_write_time(input) + std::chrono::hours(1));
    return false;
  };
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_TRUE(has(end.message, "has changed since the run began")) << end.message;
  EXPECT_FALSE(fs::exists(out_folder_ / "d.idx"));
  on_stop_ = {};
  stop_at_ = -1;
  expect_rerun_completes("when nothing changes");
}

TEST_F(SameFolder, ALockedFolderNamesItsOwnerAndAStaleLockIsTakenOver) {
  {
    const LockFile lock(out_folder_ / "d.lock");
    const RunEnd end = run();
    EXPECT_EQ(end.exit_code, 8);
    EXPECT_TRUE(has(end.message, "process " + std::to_string(::getpid()) + " on ")) << end.message;
  }
  write_file_atomically(out_folder_ / "d.lock", "process 1 on elsewhere\n");
  expect_rerun_completes("a stale lock");
}

TEST_F(SameFolder, FilesThatAreMissingInTheWorkAreNoReasonToFail) {
  config_.sync_interval = std::chrono::milliseconds(0);  // the journal is written in every round
  for (const char* name : {"0.bin", "0.idx", "0.bounds", "0.sources", "journal"}) {
    ASSERT_TRUE(run(crash_at("journal_synced:1")).is_killed());
    ASSERT_TRUE(fs::remove(out_folder_ / "d.work" / name)) << name;
    expect_rerun_completes(std::string("without ") + name);
    remove_output();
  }
  ASSERT_TRUE(run(crash_at("journal_synced:1")).is_killed());
  for (const auto& entry : fs::directory_iterator(out_folder_ / "d.work")) {
    if (entry.path().filename().string().starts_with("stage.")) fs::remove(entry.path());
  }
  expect_rerun_completes("without stages");
}

TEST_F(SameFolder, ForeignFilesInTheWorkFolderAreLeftAlone) {
  fs::create_directory(out_folder_ / "d.work");
  write_file_atomically(out_folder_ / "d.work" / "thesis.txt", "precious");
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_TRUE(has(end.message, "thesis.txt")) << end.message;
  EXPECT_EQ(read_file(out_folder_ / "d.work" / "thesis.txt"), "precious");
}

// Lines that one run has left out are bad lines to the next, if it is told to stop at them.
TEST_F(SameFolder, SkippedLinesStopARunThatDoesNotSkip) {
  std::ofstream(path("a.jsonl"), std::ios::app | std::ios::binary) << "no JSON\n";
  config_.rules.on_bad_line = OnBadLine::kSkip;
  crashed();
  config_.rules.on_bad_line = OnBadLine::kStop;
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_TRUE(has(end.message, "not valid JSON")) << end.message;
  config_.rules.on_bad_line = OnBadLine::kSkip;
  EXPECT_EQ(run().exit_code, 0);
}

TEST_F(SameFolder, AFinishedRunDoesNotThrowAwayTheWorkOfAnother) {
  ASSERT_EQ(run().exit_code, 0);
  const std::vector<fs::path> prefixes = config_.output_prefixes;
  config_.work_prefix = prefixes[0];
  config_.output_prefixes = {out_folder_ / "other"};
  config_.rules.append_eod = true;
  crashed();
  config_.rules.append_eod = false;
  config_.output_prefixes = prefixes;
  EXPECT_TRUE(run().was_there);
  EXPECT_TRUE(fs::exists(out_folder_ / "d.work" / "journal"));
}

}  // namespace
}  // namespace weft
