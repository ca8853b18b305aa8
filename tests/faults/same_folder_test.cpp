// Runs that follow each other in one folder: stopped ones, other options, changed inputs, locks.
#include <algorithm>
#include <fstream>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "preprocess/ledger/run_ranks.h"
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
    RunEnd end = run(crash_at("dataset_prepared"));
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
    if (entry.path().filename().string().starts_with("spill.")) fs::remove(entry.path());
  }
  expect_rerun_completes("without spills");
}

TEST_F(SameFolder, ForeignFilesInTheWorkFolderAreLeftAlone) {
  for (const char* name : {"thesis.txt", "commitments.txt", "failure_analysis.doc", "2024.pdf"}) {
    const fs::path file = out_folder_ / "d.work" / name;
    fs::create_directory(out_folder_ / "d.work");
    write_file_atomically(file, "precious");
    const RunEnd end = run();
    EXPECT_EQ(end.exit_code, 2) << name;
    EXPECT_TRUE(has(end.message, "d.work' holds files, but not 'weft-data.work'")) << end.message;
    EXPECT_EQ(read_file(file), "precious");
    remove_output();
    // In one that a run has made, too.
    crashed();
    std::ofstream(file) << "precious";
    config_.overwrite = config_.rules.append_eod = true;  // drops the work
    const RunEnd dropping = run();
    EXPECT_EQ(dropping.exit_code, 2) << name;
    EXPECT_TRUE(has(dropping.message, name)) << dropping.message;
    EXPECT_EQ(read_file(file), "precious");
    config_.overwrite = config_.rules.append_eod = false;
    remove_output();
  }
}

TEST_F(SameFolder, ACommitOfOtherOptionsIsNotCarriedOut) {
  config_.rules.append_eod = true;
  ASSERT_TRUE(run(crash_at("commit_rename:1")).is_killed());
  config_.rules.append_eod = false;
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_TRUE(has(end.message,
                  "holds the finished work of another run (--append-eod: was true, is "
                  "false)"))
      << end.message;
  EXPECT_FALSE(fs::exists(out_folder_ / "d.idx"));
  config_.overwrite = true;
  expect_rerun_completes("--overwrite");
}

TEST_F(SameFolder, ACommitOfTheSameRunIsCarriedOut) {
  ASSERT_TRUE(run(crash_at("commit_rename:1")).is_killed());
  const RunEnd end = expect_rerun_completes("a commit");
  EXPECT_TRUE(has(end.notes, "finished the commit of an earlier run")) << end.notes;
  EXPECT_TRUE(end.was_there);
}

// Half of the work was of the text before.
TEST_F(SameFolder, AnInputThatWasReplacedByOneOfTheSameSizeAndTimeBeginsAnew) {
  crashed();
  std::string text = read_file(path("a.jsonl"));
  text[text.find("fox")] = 'b';
  std::ofstream(path("other"), std::ios::binary) << text;
  fs::last_write_time(path("other"), fs::last_write_time(path("a.jsonl")));
  fs::rename(path("other"), path("a.jsonl"));
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_TRUE(has(end.notes, "is dropped: the input '")) << end.notes;
  const auto made = output();
  remove_output();
  ASSERT_EQ(run().exit_code, 0);
  EXPECT_TRUE(made.at(".bin") == output().at(".bin"));
}

TEST_F(SameFolder, NamesThatDifferInInvalidBytesAreDifferentInputs) {
  config_.inputs.clear();
  for (const char* name : {"bad\xfe.jsonl", "bad\xff.jsonl"}) {
    std::ofstream(path(name)) << "{\"text\": \"" << std::string(9, name[3] == '\xff' ? 'x' : 'y')
                              << "\"}\n";
    fs::last_write_time(path(name), fs::last_write_time(path("a.jsonl")));
  }
  config_.inputs = {path("bad\xfe.jsonl")};
  ASSERT_EQ(run().exit_code, 0);
  config_.inputs = {path("bad\xff.jsonl")};
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_TRUE(has(end.message, "bad\\xFE.jsonl")) << end.message;
}

// Rank 0 of two, of which the other one never says a word.
class SilentRanks final : public RankTransport {
 public:
  int rank() const override { return 0; }
  int num_ranks() const override { return 2; }
  const std::string& place_of(int) const override { return place_; }
  void send(int, int, std::string) override {}
  bool is_all_sent() override { return true; }
  std::optional<RankMessage> receive() override { return std::nullopt; }
  void exchange(std::span<const RankBuffer>, int) override {}
  bool is_exchanged() override { return true; }
  void end() override {}
  void abort(int exit_code) override { ::_exit(exit_code); }

 private:
  std::string place_ = "here";
};

// Several ranks on NFS can lose each other's bytes without a word.
TEST_F(SameFolder, RanksDoNotShareAFileSystemThatIsNotCoherent) {
  const auto run_on = [this](const char* magic, bool with_ranks = true) {
    return run([=, this] {
      ::setenv("WEFT_STATFS_TYPE", magic, 1);
      if (with_ranks) config_.ranks = new RunRanks(std::make_unique<SilentRanks>(), {});
    });
  };
  EXPECT_EQ(run_on("0x6969", /*with_ranks=*/false).exit_code, 0) << "one process alone";
  remove_output();
  const RunEnd end = run_on("0x6969");
  EXPECT_EQ(end.exit_code, 2);
  for (const char* part : {"is on NFS", "--shard I/N", "merge", "--allow-incoherent-file-system"}) {
    EXPECT_TRUE(has(end.message, part)) << end.message;
  }
  EXPECT_TRUE(fs::is_empty(out_folder_));
  // Past that check, the next one ends the run.
  fs::create_directory(out_folder_ / "d.work");
  std::ofstream(out_folder_ / "d.work" / "thesis.txt") << "precious";
  EXPECT_TRUE(has(run_on("0x0BD00BD0").message, "weft-data.work")) << "Lustre";
  config_.allow_incoherent_file_system = true;
  EXPECT_TRUE(has(run_on("0x6969").message, "weft-data.work")) << "allowed";
}

// The message of a failed run came from its clean-up, which met a strange file.
TEST_F(SameFolder, ACleanUpThatFailsDoesNotHideWhyTheRunFailed) {
  std::ofstream(path("a.jsonl"), std::ios::binary) << "no JSON\n";
  config_.inputs.resize(1);
  config_.rules.on_bad_line = OnBadLine::kSkip;
  stop_if_ = [this] {
    std::ofstream(out_folder_ / "d.work" / "thesis.txt") << "precious";
    return false;
  };
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_TRUE(has(end.message, "no line of the input is a document")) << end.message;
  EXPECT_EQ(read_file(out_folder_ / "d.work" / "thesis.txt"), "precious");
}

TEST_F(SameFolder, AFailedRunThatHasNothingToGoOnWithLeavesNothing) {
  std::ofstream(path("a.jsonl"), std::ios::binary) << "no JSON\n";
  config_.inputs.resize(1);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_TRUE(has(end.message, "nothing was written")) << end.message;
  EXPECT_TRUE(fs::is_empty(out_folder_));
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
