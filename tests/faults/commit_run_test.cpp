// A commit that is killed at every step: the next run completes it, and no pair is ever mixed.
#include "preprocess/run/commit_run.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "indexed_dataset/storage/file_io.h"
#include "preprocess/run/work_folder.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Commit : public ::testing::Test {
 protected:
  void write(const fs::path& path, const std::string& text) const {
    std::ofstream(path, std::ios::binary) << text;
  }
  // Old files under the final names of dataset 0, new ones of two datasets in the work folder.
  void set_up() {
    fs::remove_all(root_);
    fs::create_directories(root_);
    make_work_folder(work_);
    for (const char* suffix : {".bin", ".idx", ".sources"})
      write(root_ / ("a" + std::string(suffix)), "old");
    write(work_ / "journal", "journal");
    write(work_ / "0.bounds", "bounds");
    write(work_ / "spill.3.77", "spill");
    for (const char* k : {"0", "1"}) {
      for (const char* suffix : {".bin", ".idx", ".sources"})
        write(work_ / (std::string(k) + suffix), "new");
    }
  }
  void commit() const {
    commit_run(work_, "77",
               {{"0.bin", root_ / "a.bin"},
                {"0.sources", root_ / "a.sources"},
                {"1.bin", root_ / "b c.bin"},
                {"1.sources", root_ / "b c.sources"}},
               {{"0.idx", root_ / "a.idx"}, {"1.idx", root_ / "b c.idx"}});
  }
  void resume_commit() const {
    const auto commit = InterruptedCommit::find(work_, {root_ / "a", root_ / "b c"});
    if (commit) commit->resume();
  }
  // Runs `step` in a process that is killed at its n-th I/O call; false if it came to its end.
  static bool is_killed(int64_t n, const std::function<void()>& step) {
    const pid_t child = ::fork();
    if (child == 0) {
      set_io_fault(n, kIoFaultKills);
      try {
        step();
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return true;
    EXPECT_EQ(WEXITSTATUS(status), 0);
    return false;
  }
  std::string content(const fs::path& path) const {
    return fs::exists(path) ? read_file(path) : "";
  }

  void expect_no_mix() const {
    for (const char* name : {"a", "b c"}) {
      const fs::path prefix = root_ / name;
      const std::string idx = content(prefix.string() + ".idx");
      if (idx.empty()) continue;
      EXPECT_EQ(content(prefix.string() + ".bin"), idx);
      EXPECT_EQ(content(prefix.string() + ".sources"), idx);
    }
  }
  void expect_done() const {
    // What a kill at the very end leaves, every run removes.
    if (!fs::exists(work_ / "journal")) remove_work_folder(work_);
    for (const char* name : {"a.bin", "a.idx", "a.sources", "b c.bin", "b c.idx", "b c.sources"}) {
      EXPECT_EQ(content(root_ / name), "new") << name;
    }
    EXPECT_FALSE(fs::exists(work_));
  }

  TemporaryFolder folder_{memory_folder()};
  fs::path root_ = folder_.path() / "out", work_ = root_ / "a.work";
};

TEST_F(Commit, KilledAtEveryCallIsCompletedOrNotBegun) {
  bool was_killed = true;
  int num_begun = 0;
  for (int64_t n = 1; was_killed; ++n) {
    set_up();
    was_killed = is_killed(n, [this] { commit(); });
    expect_no_mix();
    const bool is_begun =
        !was_killed || fs::exists(work_ / "commit") || !fs::exists(work_ / "journal");
    num_begun += is_begun ? 1 : 0;
    if (!is_begun) {
      EXPECT_EQ(content(root_ / "a.idx"), "old") << n;
      EXPECT_EQ(content(work_ / "journal"), "journal") << n;
      continue;
    }
    resume_commit();
    expect_done();
    ASSERT_LT(n, 200);
  }
  EXPECT_GT(num_begun, 10);
}

TEST_F(Commit, TheResumedOneMayBeKilledAtEveryCallToo) {
  bool was_killed = true;
  for (int64_t n = 1; was_killed; ++n) {
    set_up();
    // Killed between the renames: behind commit file and the removal of an old .idx.
    ASSERT_TRUE(is_killed(14, [this] { commit(); }));
    ASSERT_TRUE(fs::exists(work_ / "commit"));
    was_killed = is_killed(n, [this] { resume_commit(); });
    expect_no_mix();
    resume_commit();
    expect_done();
    ASSERT_LT(n, 200);
  }
}

TEST_F(Commit, OnlyCommitFilesAreCarriedOut) {
  set_up();
  write(work_ / "commit", "something else\nrename 0.bin a.bin\n");
  EXPECT_THROW(resume_commit(), std::runtime_error);
  EXPECT_EQ(content(root_ / "a.bin"), "old");
}

// Somebody who can write to the folder could have any file beside it replaced or removed.
TEST_F(Commit, OnlyFilesOfTheRunsDatasetsAreTouched) {
  set_up();
  write(root_ / "thesis.txt", "precious");
  for (const char* step :
       {"replace 0.idx thesis.txt", "rename 0.bin thesis.txt", "rename 0.bin a.bin.txt",
        "rename 0.bin aa.bin", "rename 0.bin a.lock"}) {
    write(work_ / "commit",
          "weft-commit 2 77\nrename 0.idx a.idx\n" + std::string(step) + "\nend\n");
    EXPECT_THROW(resume_commit(), std::runtime_error) << step;
    EXPECT_EQ(content(root_ / "thesis.txt"), "precious") << step;
    EXPECT_EQ(content(root_ / "a.idx"), "old") << step;
  }
}

TEST_F(Commit, KnowsItsRun) {
  set_up();
  write(work_ / "commit", "weft-commit 2 0123abc\nend\n");
  EXPECT_EQ(InterruptedCommit::find(work_, {root_ / "a"})->run_hash(), "0123abc");
}

}  // namespace
}  // namespace weft
