#include "indexed_dataset/base/storage/lock_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <memory>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class Lock : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  void TearDown() override { std::filesystem::remove(path_); }
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("weft-lock-" + std::to_string(::getpid()));
};

TEST_F(Lock, IsHeldByOneAndRemovedAfterwards) {
  {
    const LockFile first(path_);
    EXPECT_TRUE(std::filesystem::exists(path_));
    EXPECT_THROW(LockFile second(path_), LockedByAnotherRun);
    EXPECT_THROW(LockFile second(path_, std::chrono::milliseconds(20)), LockedByAnotherRun);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_NO_THROW(LockFile again(path_));
}

TEST_F(Lock, WaitsForAnOwnerThatEnds) {
  auto first = std::make_unique<LockFile>(path_);
  std::atomic<bool> is_ending = false;
  std::jthread owner([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    is_ending = true;
    first.reset();
  });
  const LockFile second(path_, std::chrono::minutes(5));
  EXPECT_TRUE(is_ending) << "it did not wait";
}

TEST_F(Lock, AFileThatIsNoLockOfOursIsLeftAlone) {
  for (const std::string text : {"[[package]]\nname = \"serde\"\n", "process 12 of the law\n", "\n",
                                 "process 1234567890123 on x", "my process 12 on node\n"}) {
    write(text);
    EXPECT_THROW(LockFile lock(path_), std::invalid_argument) << text;
    EXPECT_EQ(read_file(path_), text);
  }
  for (const std::string text : {"", "process 1 on elsewhere\n"}) {
    write(text);
    { const LockFile lock(path_); }
    EXPECT_FALSE(std::filesystem::exists(path_)) << text;
  }
}

// A mount without flock: Lustre answers ENOSYS, NFS without its lock service ENOLCK.
class LockByName : public Lock, public ::testing::WithParamInterface<int> {
 protected:
  // Its flock fails.
  std::unique_ptr<LockFile> lock() const {
    set_io_fault(1, GetParam());
    auto lock = std::make_unique<LockFile>(path_);
    set_io_fault(0, 0);
    return lock;
  }
  std::string refusal() const {
    try {
      lock();
      return "";
    } catch (const LockedByAnotherRun& error) {
      set_io_fault(0, 0);
      return error.what();
    }
  }
  static std::string own_host() {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    return host;
  }
};

TEST_P(LockByName, ExcludesByTheFileItself) {
  {
    const auto first = lock();
    EXPECT_THAT(read_file(path_), HasSubstr("process " + std::to_string(::getpid()) + " on "));
    EXPECT_THAT(refusal(), HasSubstr("mounted with -o flock"));
    EXPECT_TRUE(std::filesystem::exists(path_)) << "the loser has removed the lock";
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(refusal(), "");
}

TEST_P(LockByName, OneOfAKilledProcessOfThisHostIsTakenOver) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  write("process " + std::to_string(child) + " on " + own_host() + "\n");
  EXPECT_EQ(refusal(), "");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Its process may live: only a person can tell.
TEST_P(LockByName, OneOfAnotherHostStays) {
  write("process 1 on another." + own_host() + "\n");
  EXPECT_THAT(refusal(), HasSubstr("if it has ended, remove the file, and the other .lock files"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

INSTANTIATE_TEST_SUITE_P(Errors, LockByName, ::testing::Values(ENOSYS, EOPNOTSUPP, ENOLCK));

}  // namespace
}  // namespace weft
