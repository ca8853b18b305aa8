// A disk that is full at each write in turn: the run says so, and goes on when there is space.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/faults/forked_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class FullDisk : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 60'000, 1);
    add_input("b.jsonl.gz", 10'000, 2);
    config_.max_held_bytes_per_worker = 5'000;
    make_reference();
  }
  void TearDown() override {
    if (is_mounted_) ::umount2(out_folder_.c_str(), MNT_DETACH);
  }
  // Returns whether a disk of that size could be mounted where the output goes. Needs root.
  bool mount_disk(int64_t size_bytes, unsigned long flags = 0) {
    const std::string options = "size=" + std::to_string(size_bytes);
    if (::mount("weft-test", out_folder_.c_str(), "tmpfs", flags, options.c_str()) != 0)
      return false;
    is_mounted_ = true;
    return true;
  }

  bool is_mounted_ = false;
};

TEST_F(FullDisk, AFullDiskIsTheReasonGivenAndTheRunGoesOn) {
  const auto page = static_cast<int64_t>(::sysconf(_SC_PAGESIZE));
  int64_t num_failed = 0, num_finished = 0;
  for (int64_t num_pages = 3; num_finished < 2; ++num_pages) {
    ASSERT_LT(num_pages, 400) << "never enough";
    if (!mount_disk(num_pages * page))
      GTEST_SKIP() << "no right to mount: " << std::strerror(errno);
    const std::string when = "a disk of " + std::to_string(num_pages) + " pages";
    const RunEnd end = run();
    expect_nothing_half_done(when);
    if (end.exit_code == 0) {
      ++num_finished;
    } else {
      ++num_failed;
      EXPECT_EQ(end.exit_code, 5) << end.message << ", " << when;
      EXPECT_NE(end.message.find(out_folder_.string()), std::string::npos) << end.message;
      EXPECT_NE(end.message.find("No space left on device"), std::string::npos) << end.message;
      ASSERT_TRUE(mount_disk(int64_t{16} << 20, MS_REMOUNT));
    }
    expect_rerun_completes(when);
    ASSERT_EQ(::umount2(out_folder_.c_str(), MNT_DETACH), 0);
    is_mounted_ = false;
    if (HasFailure()) return;
  }
  EXPECT_GT(num_failed, 5);
}

// Without any rights: files that may not grow over a limit.
TEST_F(FullDisk, FilesThatMayNotGrow) {
  int64_t limit = 0;
  for (RunEnd end; end.exit_code != 0; limit += 1500) {
    ASSERT_LT(limit, 1 << 20) << "never enough";
    remove_output();
    const std::string when = "files of at most " + std::to_string(limit) + " bytes";
    end = run([limit] {
      ::signal(SIGXFSZ, SIG_IGN);  // as weft-data does
      const rlimit size{static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
      ::setrlimit(RLIMIT_FSIZE, &size);
    });
    expect_nothing_half_done(when);
    if (end.exit_code != 0) {
      EXPECT_EQ(end.exit_code, 5) << end.message << ", " << when;
      EXPECT_NE(end.message.find(out_folder_.string()), std::string::npos) << end.message;
    }
    expect_rerun_completes(when);
    if (HasFailure()) return;
  }
}

// With no room for spill files nothing is read ahead of its place, and all gets done.
class SpillLimit : public ForkedRuns {};

TEST_F(SpillLimit, NothingIsSpilledBeyondTheLimit) {
  config_.num_workers = 4;  // so many streams are read at once
  for (const char* name : {"a.jsonl.xz", "b.jsonl.xz", "c.jsonl"}) add_input(name, 40'000, 7);
  config_.max_held_bytes_per_worker = 0;
  make_reference();
  bool has_spilled = false;
  for (int i = 0; i < 100 && !has_spilled; ++i) {  // once would do, but for a strange scheduler
    has_spilled = run(crash_at("spilled")).is_killed();
    remove_output();
  }
  EXPECT_TRUE(has_spilled) << "nothing to be limited";
  config_.max_spilled_bytes = 0;
  const RunEnd end = run(crash_at("spilled"));
  EXPECT_EQ(end.exit_code, 0) << end.message;
  EXPECT_TRUE(output() == reference_);
}

}  // namespace
}  // namespace weft
