// A folder that has the name of a run's work folder, and is not, or not only, a run's.
#include "preprocess/run/work_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WorkFolder : public ::testing::Test {
 protected:
  static void write(const fs::path& path) { std::ofstream(path, std::ios::binary) << "precious"; }
  // Empty if the folder may be used.
  std::string refusal() const {
    try {
      make_work_folder(work_);
      return "";
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  }
  // Another user owns the file then.
  void give_away(const fs::path& path) const { ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0); }

  TemporaryFolder folder_{memory_folder()};
  fs::path work_ = folder_.path() / "a.work";
};

// Each of these was deleted as a file of a run by its first letters.
TEST_F(WorkFolder, NamesThatBeginLikeThoseOfARunAreNotTakenForThem) {
  for (const char* name : {"commitments.txt",
                           "commit.txt",
                           "failure_analysis.doc",
                           "2024.pdf",
                           "journal.tex",
                           "journals",
                           "coordinator.doc",
                           "scratch.txt",
                           "scratch.1.txt",
                           "1.bin.gz",
                           "1.idx.old",
                           ".nfs",
                           ".nfsshare",
                           "thesis.txt",
                           "spill",
                           "spill.3",
                           "spill.3.",
                           "spill.3.x",
                           "0",
                           "x.bin",
                           "12.",
                           "fetched.1a"}) {
    make_work_folder(work_);
    write(work_ / "journal");
    write(work_ / name);
    EXPECT_THROW(remove_work_folder(work_), std::invalid_argument) << name;
    EXPECT_EQ(read_file(work_ / "journal"), "precious") << name;
    EXPECT_EQ(read_file(work_ / name), "precious") << name;
    fs::remove(work_ / name);
    remove_work_folder(work_);
    ASSERT_FALSE(fs::exists(work_)) << name;
  }
  make_work_folder(work_);
  fs::create_directory(work_ / "spill.4.1");
  EXPECT_THROW(remove_work_folder(work_), std::invalid_argument);
}

TEST_F(WorkFolder, FilesOfARunAreRemoved) {
  make_work_folder(work_);
  for (const char* name : {"journal", "journal.part", "commit", "commit.012abcdf.part", "0.bin",
                           "17.idx", "0.bounds", "0.sources", "0.checksums", "0.checksums.part",
                           "0.manifest.json", "spill.3.12345", ".nfs000000000012af0300000001"}) {
    write(work_ / name);
  }
  remove_work_folder(work_);
  EXPECT_FALSE(fs::exists(work_));
}

// Even if all names in it could be those of a run.
TEST_F(WorkFolder, AFolderWithoutTheMarkerIsNeitherUsedNorEmptied) {
  fs::create_directory(work_);
  for (const char* name : {"journal", "0.bin", "2024.bin"}) write(work_ / name);
  EXPECT_THAT(refusal(), HasSubstr("a.work' holds files, but not 'weft-data.work'"));
  EXPECT_THROW(remove_work_folder(work_), std::invalid_argument);
  for (const char* name : {"journal", "0.bin", "2024.bin"}) {
    EXPECT_EQ(read_file(work_ / name), "precious");
  }
}

TEST_F(WorkFolder, KilledAtAnyCallWhileItIsMadeOrRemovedIsOneOfARunOrEmpty) {
  for (const bool is_made_before : {false, true}) {
    int num_kills = 0;
    for (bool was_killed = true; was_killed; ++num_kills) {
      ASSERT_LT(num_kills, 50);
      fs::remove_all(work_);
      if (is_made_before) {
        make_work_folder(work_);
        for (const char* name : {"journal", "0.bin", "commit"}) write(work_ / name);
      }
      const pid_t child = ::fork();
      if (child == 0) {
        set_io_fault(num_kills + 1, kIoFaultKills);
        is_made_before ? remove_work_folder(work_) : make_work_folder(work_);
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      was_killed = WIFSIGNALED(status);
      EXPECT_EQ(refusal(), "") << "killed at call " << num_kills + 1;
      remove_work_folder(work_);
      EXPECT_FALSE(fs::exists(work_));
    }
    EXPECT_GT(num_kills, 3);
  }
}

// No call of ours lies between these; the kill is put there by hand.
TEST_F(WorkFolder, AnEmptyFolderIsUsed) {
  fs::create_directory(work_);
  fs::permissions(work_, fs::perms(0755));
  EXPECT_EQ(refusal(), "");
  EXPECT_TRUE(fs::exists(work_ / "weft-data.work"));
}

TEST_F(WorkFolder, OneThatOtherUsersCanWriteToIsRefused) {
  make_work_folder(work_);
  fs::permissions(folder_.path(), fs::perms(0755));
  for (const int mode : {0775, 0757, 0777}) {
    fs::permissions(work_, fs::perms(mode));
    EXPECT_THAT(refusal(), HasSubstr("can be written to by other users")) << mode;
  }
  // Some file systems show one mode for all folders.
  fs::permissions(folder_.path(), fs::perms(0777));
  EXPECT_EQ(refusal(), "");
  fs::permissions(work_, fs::perms(0700));
  EXPECT_EQ(refusal(), "");
}

TEST_F(WorkFolder, IsNotWritableForOthersWhateverTheUmask) {
  const mode_t before = ::umask(0);
  make_work_folder(work_);
  ::umask(before);
  EXPECT_EQ(fs::status(work_).permissions(), fs::perms(0755));
}

TEST_F(WorkFolder, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  make_work_folder(work_);
  give_away(work_);
  EXPECT_THAT(refusal(), HasSubstr("a.work' belongs to another user (12345)"));
  EXPECT_THROW(remove_work_folder(work_), std::invalid_argument);
  fs::remove_all(work_);
  make_work_folder(work_);
  write(work_ / "commit");
  give_away(work_ / "commit");
  EXPECT_THAT(refusal(), HasSubstr("commit' belongs to another user (12345)"));
}

TEST_F(WorkFolder, ALinkInItIsRefused) {
  make_work_folder(work_);
  write(folder_.path() / "victim");
  fs::create_symlink(folder_.path() / "victim", work_ / "0.bin");
  EXPECT_THAT(refusal(), HasSubstr("0.bin' is a link"));
  // One that is planted after the check is not written through.
  EXPECT_THROW(OutputFile(work_ / "0.bin", /*keep=*/true), std::system_error);
  EXPECT_THROW(OutputFile::existing(work_ / "0.bin"), std::system_error);
  EXPECT_THROW(read_file(work_ / "0.bin", Links::kRefuse), std::system_error);
  EXPECT_THROW(InputFile(work_ / "0.bin", Links::kRefuse), std::system_error);
  fs::create_symlink(folder_.path() / "victim", work_ / "ranks");
  EXPECT_THROW(check_sees_work_folder(work_, "precious", "rank 0", [] { return false; }),
               std::system_error);
  EXPECT_EQ(read_file(folder_.path() / "victim"), "precious");
}

TEST_F(WorkFolder, WhatCannotBeRemovedHidesNoOtherError) {
  make_work_folder(work_);
  write(work_ / "thesis.txt");
  EXPECT_NO_THROW(try_remove_work_folder(work_));
  EXPECT_EQ(read_file(work_ / "thesis.txt"), "precious");
}

}  // namespace
}  // namespace weft
