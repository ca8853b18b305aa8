// A commit that is killed at every step: the next run completes it, and no pair is ever mixed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/run/finish_run.h"
#include "preprocess/run/work_folder.h"
#include "tests/temporary_folder.h"

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
  void commit() const { commit_run(work_, "77", prefixes_); }
  void resume() const {
    const auto hash = find_interrupted_commit(work_);
    if (!hash) return;
    EXPECT_EQ(*hash, "77");
    resume_commit(work_, prefixes_);
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
    // Every run removes what a kill at the very end leaves.
    if (!fs::exists(work_ / "journal")) remove_work_folder(work_);
    for (const char* name : {"a.bin", "a.idx", "a.sources", "b c.bin", "b c.idx", "b c.sources"}) {
      EXPECT_EQ(content(root_ / name), "new") << name;
    }
    EXPECT_FALSE(fs::exists(work_));
  }

  TemporaryFolder folder_{memory_folder()};
  fs::path root_ = folder_.path() / "out", work_ = root_ / "a.work";
  std::vector<fs::path> prefixes_ = {root_ / "a", root_ / "b c"};
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
    resume();
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
    was_killed = is_killed(n, [this] { resume(); });
    expect_no_mix();
    resume();
    expect_done();
    ASSERT_LT(n, 200);
  }
}

// Only the hash is read from the folder: names of files come from the run alone.
TEST_F(Commit, OnlyCommitFilesAreCarriedOut) {
  set_up();
  for (const char* text : {"", "something else\n", "weft-commit 2 77\nrename 0.bin a.bin\nend\n",
                           "weft-commit 3 77\nrename 0.bin thesis.txt\n", "weft-commit 3 \n"}) {
    write(work_ / "commit", text);
    EXPECT_THROW(resume(), std::runtime_error) << text;
    EXPECT_EQ(content(root_ / "a.bin"), "old") << text;
    EXPECT_EQ(content(root_ / "a.idx"), "old") << text;
  }
  fs::remove(work_ / "commit");
  fs::create_symlink(root_ / "a.bin", work_ / "commit");
  EXPECT_THROW(resume(), std::system_error);
}

}  // namespace
}  // namespace weft
