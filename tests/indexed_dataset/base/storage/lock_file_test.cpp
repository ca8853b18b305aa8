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

TEST_F(Lock, StaysAsLongAsAFileIsThereThatAKilledOwnerHasNamed) {
  const std::filesystem::path part = path_.string() + "-d.bin.part";
  {
    LockFile lock(path_);
    lock.add_files("merge", {part, path_.string() + "-d.idx.part"});
    write_file_atomically(part, "half");
  }
  for (int i = 0; i < 2; ++i) {
    const LockFile lock(path_);
    EXPECT_EQ(lock.find_writer(part), "merge");
    EXPECT_EQ(lock.find_writer(path_.string() + "-d.idx.part"), std::nullopt) << "it is not there";
    EXPECT_THAT(read_file(path_), HasSubstr("process " + std::to_string(::getpid())));
  }
  std::filesystem::remove(part);
  { const LockFile lock(path_); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Lock, FilesThatItsOwnerHasLeftOnPurposeDoNotKeepIt) {
  const std::filesystem::path part = path_.string() + ".part", other = path_.string() + "-x.part";
  {
    LockFile lock(path_);
    lock.add_files("download", {part, other});
    write_file_atomically(part, "half");
    lock.release_files({part});
    EXPECT_EQ(lock.find_writer(part), std::nullopt);
    EXPECT_EQ(lock.find_writer(other), "download");
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::remove(part);
}

TEST_F(Lock, ATextThatNoOwnerWroteNamesNothing) {
  const std::string name = path_.filename().string();
  const std::filesystem::path part = path_.string() + "-d.part", notes = path_.string() + "-d.txt",
                              others = path_.parent_path() / ("x" + name + ".part");
  for (const auto& file : {part, notes, others}) write_file_atomically(file, "precious");
  const std::string begin = "process 1 on elsewhere\n";
  for (const std::string& line :
       {"rm may leave " + name + "-d.part\n", " may leave " + name + "-d.part\n",
        "merge may leave " + name + "-d.txt\n", "merge may leave x" + name + ".part\n",
        "merge may leave ../" + path_.parent_path().filename().string() + "/" + name + "-d.part\n",
        std::string("merge may leave \n"), std::string("merge may leave .\n"),
        "merge may leave " + name + "-d.part"}) {
    write(begin + line);
    {
      const LockFile lock(path_);
      for (const auto& file : {part, notes, others})
        EXPECT_EQ(lock.find_writer(file), std::nullopt) << line;
    }
    EXPECT_FALSE(std::filesystem::exists(path_)) << line << "keeps the lock for ever";
    std::filesystem::remove(path_);
  }
  for (const char* command : {"merge", "repair", "download"}) {
    write(begin + command + " may leave " + name + "-d.part\n");
    EXPECT_EQ(LockFile(path_).find_writer(part), command);
  }
  for (const auto& file : {part, notes, others}) std::filesystem::remove(file);
}

// A write beyond a limit of size is cut short, as on a disk that becomes full.
TEST_F(Lock, AShortWriteIsAFullDisk) {
  const pid_t child = ::fork();
  if (child == 0) {
    LockFile lock(path_);
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50, 50};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      lock.add_files("merge", {path_.string() + std::string(60, 'x') + ".part"});
      ::_exit(1);
    } catch (const std::system_error& error) {
      ::_exit(error.code().value() == ENOSPC ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Lock, FilesThatCannotBeNamedAreNotMade) {
  LockFile lock(path_);
  set_io_fault(1, ENOSPC);
  EXPECT_THROW(lock.add_files("merge", {path_.string() + ".part"}), std::system_error);
  set_io_fault(0, 0);
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
  const std::filesystem::path part = path_.string() + "-d.part";
  write("process " + std::to_string(child) + " on " + own_host() + "\nmerge may leave " +
        part.filename().string() + "\n");
  write_file_atomically(part, "half");
  EXPECT_EQ(lock()->find_writer(part), "merge");
  std::filesystem::remove(part);
  std::filesystem::remove(path_);
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
