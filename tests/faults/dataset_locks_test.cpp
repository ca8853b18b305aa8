// Two programs that give files to one dataset: the .bin of one never comes to stand under the .idx
// of the other, and nobody's finished dataset is replaced unasked.
#include <sys/wait.h>
#include <unistd.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/format/merge/merge.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/repair/repair.h"
#include "tests/faults/forked_run.h"
#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class OneDataset : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 20'000, 1);
    make_reference();
    // As of --output-prefix: the names of the run and of its dataset differ.
    config_.work_prefix = out_folder_ / "o";
    const std::vector<uint16_t> tokens = {7, 7, 7};
    DatasetWriter part(path("part"), TokenType::kUInt16);
    const int32_t length = 3;
    part.append_documents(std::as_bytes(std::span(tokens)), std::span(&length, 1));
    part.finish();
  }
  // The exit code of a program that calls `act`. Crash points are for processes in which nothing
  // was mapped before.
  static int in_a_process(const std::function<void()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        act();
      } catch (const std::exception& error) {
        ::_exit(static_cast<int>(exit_code_for(error)));
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  fs::path dataset() const { return config_.output_prefixes[0]; }
  void merge_into_the_dataset(bool overwrite = false) const {
    MergeConfig config;
    config.prefixes = {path("part")};
    config.output_prefix = dataset();
    config.overwrite = overwrite;
    merge_datasets(config, [] {});
  }
  // Returns the exit code of a merge whose I/O call of this number kills it; below 0 if it was
  // killed.
  int merge_killed_at(int64_t call) const {
    return in_a_process([this, call] {
      set_io_fault(call, kIoFaultKills);
      merge_into_the_dataset();
    });
  }
  void expect_dataset_of_the_merge() const {
    EXPECT_EQ(read_file(dataset().string() + ".bin"), read_file(path("part.bin")));
    EXPECT_EQ(in_a_process([this] {
                if (!verify_dataset(dataset()).empty()) throw std::runtime_error("damaged");
              }),
              0);
  }
  // Calls `act` in the run once, when nothing but the commit is left to do.
  void before_commit(const std::function<void()>& act) {
    stop_if_ = [this, act, is_done = false]() mutable {
      if (is_done || !fs::exists(out_folder_ / "o.work" / "0.manifest.json")) return false;
      is_done = true;
      act();
      return false;
    };
  }
  void expect_rerun_goes_on() {
    stop_if_ = {};
    const RunEnd end = expect_rerun_completes("after the other program");
    EXPECT_NE(end.notes.find("going on with the work"), std::string::npos) << end.notes;
  }
};

TEST_F(OneDataset, ADatasetThatAnotherProgramMadeMeanwhileIsNotReplaced) {
  before_commit([this] { merge_into_the_dataset(); });
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.message.find("d.idx' is a finished dataset"), std::string::npos) << end.message;
  expect_dataset_of_the_merge();
  config_.overwrite = true;
  expect_rerun_goes_on();
}

TEST_F(OneDataset, TheCommitHoldsTheLockOfItsDataset) {
  before_commit([this] { new LockFile(dataset().string() + ".lock"); });
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 8) << end.message;
  EXPECT_NE(end.message.find("d.lock' is locked"), std::string::npos) << end.message;
  EXPECT_FALSE(fs::exists(dataset().string() + ".bin"));
  expect_rerun_goes_on();
}

TEST_F(OneDataset, ARunDoesNotBeginBesideAMergeOrARepair) {
  const LockFile lock(dataset().string() + ".lock");
  EXPECT_EQ(run().exit_code, 8);
  EXPECT_FALSE(fs::exists(out_folder_ / "o.work"));
  EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 8);
  fs::copy_file(path("part.bin"), dataset().string() + ".bin");
  EXPECT_EQ(in_a_process([this] {
              repair_dataset({.prefix = dataset(), .end_of_document = {}, .token_bytes = {}});
            }),
            8);
}

TEST_F(OneDataset, AnInterruptedCommitIsNotMixedWithADatasetThatWasMadeSince) {
  ASSERT_TRUE(run(crash_at("commit_rename:2")).is_killed());
  ASSERT_TRUE(fs::exists(dataset().string() + ".bin"));
  EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 2) << "the .bin is the run's";
  ASSERT_EQ(in_a_process([this] { merge_into_the_dataset(/*overwrite=*/true); }), 0);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.message.find("d.idx' is in the way"), std::string::npos) << end.message;
  expect_dataset_of_the_merge();
  config_.overwrite = true;
  expect_rerun_completes("--overwrite");
}

// The merge is killed at each of its calls; its .bin may then stand where that of the commit stood.
TEST_F(OneDataset, AnInterruptedCommitIsNotCarriedOnBesideFilesOfAnotherKilledProgram) {
  for (const char* place : {"commit_rename:1", "commit_rename:2", "commit_rename:4"}) {
    remove_output();
    config_.overwrite = false;
    ASSERT_TRUE(run(crash_at(place)).is_killed());
    fs::copy(out_folder_, path("killed"), fs::copy_options::recursive);
    int num_mixtures = 0, exit_code = -1;
    for (int64_t call = 1; exit_code < 0; ++call) {
      ASSERT_LT(call, 200);
      fs::remove_all(out_folder_);
      fs::copy(path("killed"), out_folder_, fs::copy_options::recursive);
      exit_code = in_a_process([&] {
        set_io_fault(call, kIoFaultKills);
        merge_into_the_dataset(/*overwrite=*/true);
      });
      if (exit_code == 0 || !fs::exists(dataset().string() + ".bin") ||
          read_file(dataset().string() + ".bin") != read_file(path("part.bin")))
        continue;
      ++num_mixtures;
      const RunEnd end = run();
      EXPECT_EQ(end.exit_code, 2) << place << ", call " << call << ": " << end.notes;
      const auto says = [&end](const char* text) {
        return end.message.find(text) != std::string::npos;
      };
      EXPECT_TRUE(says("' is in the way") || says("d.sources' is missing") ||
                  says("' is not what the run wrote"))
          << end.message;
      EXPECT_FALSE(says("o.work")) << "what lies there is the run's";
      EXPECT_EQ(read_file(dataset().string() + ".bin"), read_file(path("part.bin")));
    }
    EXPECT_GT(num_mixtures, 3) << place;
    fs::remove_all(path("killed"));
    EXPECT_EQ(run().exit_code, 2) << "the merge is complete now";
    config_.overwrite = true;
    expect_rerun_completes("--overwrite");
  }
}

TEST_F(OneDataset, AnInterruptedCommitTellsWhatIsMissingOrDamaged) {
  ASSERT_TRUE(run(crash_at("commit_rename:2")).is_killed());
  const fs::path bin = dataset().string() + ".bin";
  const std::string bytes = read_file(bin);
  fs::remove(bin);
  RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.message.find("d.bin' is missing"), std::string::npos) << end.message;
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_file_atomically(bin, damaged);
  end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.message.find("d.bin' is not what the run wrote: another program's, or damaged"),
            std::string::npos)
      << end.message;
  EXPECT_NE(end.notes.find("comparing the files of"), std::string::npos) << end.notes;
  write_file_atomically(bin, bytes);
  expect_rerun_completes("the bytes are there again");
}

TEST_F(OneDataset, AnOldBinIsInTheWayOfACommitThatWasToReplaceIt) {
  ASSERT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 0);
  config_.overwrite = true;
  ASSERT_TRUE(run(crash_at("commit_rename:1")).is_killed());
  ASSERT_FALSE(fs::exists(dataset().string() + ".idx"));
  config_.overwrite = false;
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2);
  EXPECT_NE(end.message.find("d.bin' is in the way"), std::string::npos) << end.message;
  EXPECT_NE(end.message.find("give --overwrite"), std::string::npos) << end.message;
  config_.overwrite = true;
  expect_rerun_completes("--overwrite");
}

TEST_F(OneDataset, ACommitThatHadRenamedNothingReplacesANewerDatasetOnlyWhenAsked) {
  ASSERT_TRUE(run(crash_at("commit_rename:1")).is_killed());
  ASSERT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 0);
  EXPECT_EQ(run().exit_code, 2);
  expect_dataset_of_the_merge();
  config_.overwrite = true;
  EXPECT_TRUE(expect_rerun_completes("--overwrite").notes.starts_with("finished the commit"));
}

// The folder of a merge that was killed at any call is its own, whatever commands came in between.
TEST_F(OneDataset, TheFolderOfAKilledMergeStaysItsOwnWhenOtherCommandsFail) {
  int num_left = 0, exit_code = -1;
  for (int64_t call = 1; exit_code < 0; ++call) {
    ASSERT_LT(call, 200);
    remove_output();
    exit_code = merge_killed_at(call);
    const fs::path part = dataset().string() + ".merge/merged.idx";
    const bool is_left = fs::exists(part);
    num_left += is_left ? 1 : 0;
    EXPECT_EQ(in_a_process([this] {
                MergeConfig config;
                config.prefixes = {path("absent")};
                config.output_prefix = dataset();
                merge_datasets(config, [] {});
              }),
              4);
    EXPECT_EQ(fs::exists(part), is_left) << call;
    EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 0) << "killed at call " << call;
    expect_dataset_of_the_merge();
    EXPECT_FALSE(fs::exists(dataset().string() + ".lock")) << call;
    EXPECT_FALSE(fs::exists(part.parent_path())) << call;
  }
  EXPECT_GT(num_left, 10);
}

// The merge is killed at each of its calls, then a run between two of its renames: its .bin, or
// that and its checksums, may stand beside the merge's other files.
TEST_F(OneDataset, AMergeThatIsGivenAgainDoesNotReplaceTheBinOfARun) {
  config_.overwrite = true;
  for (const char* rename : {"commit_rename:2", "commit_rename:4"}) {
    int num_beside_parts = 0, exit_code = -1;
    for (int64_t call = 1; exit_code < 0; ++call) {
      ASSERT_LT(call, 200);
      remove_output();
      exit_code = merge_killed_at(call);
      const fs::path bin = dataset().string() + ".bin";
      if (exit_code == 0 || !fs::exists(dataset().string() + ".merge/merged.idx")) continue;
      ASSERT_TRUE(run(crash_at(rename)).is_killed()) << call;
      const std::string bytes = read_file(bin);
      ASSERT_NE(bytes, read_file(path("part.bin")));
      ++num_beside_parts;
      EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 2)
          << "killed at call " << call << ", the run at " << rename;
      EXPECT_EQ(read_file(bin), bytes) << "killed at call " << call << ", the run at " << rename;
    }
    EXPECT_GT(num_beside_parts, 5);
  }
}

TEST_F(OneDataset, AMergeThatIsKilledTwiceGoesOn) {
  int exit_code = -1;
  for (int64_t call = 1; exit_code < 0; ++call) {
    ASSERT_LT(call, 200);
    remove_output();
    exit_code = merge_killed_at(call);
    if (exit_code == 0) break;
    merge_killed_at(1 + call * 13 % 90);
    EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 0) << "killed at call " << call;
    expect_dataset_of_the_merge();
  }
}

TEST_F(OneDataset, AMergeTakesNoFolderThatItHasNotMade) {
  const fs::path folder = dataset().string() + ".merge";
  const auto expect_refused = [&] {
    EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 2);
    EXPECT_FALSE(fs::exists(dataset().string() + ".bin"));
  };
  fs::create_directory(folder);
  write_file_atomically(folder / "merged.bin", "precious");
  expect_refused();
  EXPECT_EQ(read_file(folder / "merged.bin"), "precious");
  fs::remove_all(folder);
  write_file_atomically(folder, "precious");
  expect_refused();
  EXPECT_EQ(read_file(folder), "precious");
  fs::remove(folder);
  fs::create_directory(path("elsewhere"));
  fs::create_directory_symlink(path("elsewhere"), folder);
  expect_refused();
  fs::remove(folder);
  // Other files in the folder of a killed merge are somebody's, too.
  fs::create_directory(folder);
  write_file_atomically(folder / "weft-data.merge", "");
  write_file_atomically(folder / "merged.bin", "half");
  write_file_atomically(folder / "notes", "precious");
  EXPECT_EQ(in_a_process([this] { merge_into_the_dataset(); }), 0);
  expect_dataset_of_the_merge();
  EXPECT_EQ(read_file(folder / "notes"), "precious");
  EXPECT_FALSE(fs::exists(folder / "merged.bin"));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weft
