// A power cut at any call of a writer of index caches: what the file system was not told to sync is
// lost, or was written out by chance. The linker leads the calls of fdatasync, fsync and rename to
// this file (--wrap), which notes them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/io_fault.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/test_files.h"

namespace {

int journal = -1;  // of the calls, in the process that a power cut ends

void note(const std::string& line) {
  if (journal >= 0 && write(journal, line.data(), line.size()) < 0) _exit(99);
}

void note_sync(int fd) {
  struct stat status {};
  fstat(fd, &status);
  note(S_ISDIR(status.st_mode) ? "folder\n" : "file " + std::to_string(status.st_ino) + "\n");
}

}  // namespace

// The linker's --wrap gives the names.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
int __real_fdatasync(int fd);
int __real_fsync(int fd);
int __real_rename(const char* from, const char* to) noexcept;
int __wrap_fdatasync(int fd) {
  note_sync(fd);
  return __real_fdatasync(fd);
}
int __wrap_fsync(int fd) {
  note_sync(fd);
  return __real_fsync(fd);
}
int __wrap_rename(const char* from, const char* to) noexcept {
  note("name " + std::string(to) + "\n");
  return __real_rename(from, to);
}
}
// NOLINTEND(readability-identifier-naming)

namespace weft {
namespace {

namespace fs = std::filesystem;

// The disk may hold different parts of files that were written, and of names that were given,
// without a sync behind them. Each value is one such state.
enum class Unsynced { kIsLost, kStampsSurvive, kEarlierNamesAreLost };

class PowerCut : public testing::Test {
 protected:
  void SetUp() override {
    const auto write = [&](const char* name, size_t num_documents, size_t length) {
      write_dataset(folder_ / name, TokenType::kUInt16,
                    std::vector<std::vector<uint16_t>>(num_documents,
                                                       std::vector<uint16_t>(length, uint16_t{1})));
      return (folder_ / name).string();
    };
    options_.blends =
        resolve_data_paths({.data_path = {"1", write("a", 30, 10), "3", write("b", 50, 7)}});
    options_.split = "100,0,0";
    options_.seq_length = 7;
    options_.cache_path = cache_.string();
    options_.num_threads = 1;
    expected_ = samples_in_memory();
  }

  using Samples = std::vector<std::vector<SamplePart>>;
  static Samples samples_of(const SampleOrder& options) {
    const TrainingDatasets datasets = build_training_datasets(options, {.train_samples = 100});
    Samples samples;
    for (int64_t i = 0; i < datasets.train->num_samples(); ++i)
      samples.push_back(datasets.train->sample_parts(i));
    return samples;
  }
  Samples samples_in_memory() const {
    SampleOrder in_memory = options_;
    in_memory.cache_path = "";
    return samples_of(in_memory);
  }

  // Builds the caches in a process that ends with I/O call `call`. Returns false if it came to its
  // end.
  bool cut_at(int64_t call) const {
    const pid_t child = fork();
    if (child == 0) {
      journal = open((folder_ / "journal").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
      set_io_fault(call, kIoFaultKills);
      try {
        samples_of(options_);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  // Leaves what the disk has.
  void lose_unsynced(Unsynced unsynced) const {
    std::ifstream lines(folder_ / "journal");
    std::set<std::string> synced_files, synced_names;
    std::vector<std::string> unsynced_names;
    for (std::string kind, value; lines >> kind;) {
      if (kind == "folder") {
        synced_names.insert(unsynced_names.begin(), unsynced_names.end());
        unsynced_names.clear();
        continue;
      }
      lines >> value;
      if (kind == "file") synced_files.insert(value);
      if (kind == "name") unsynced_names.push_back(value);
    }
    for (const auto& entry : fs::directory_iterator(cache_)) {
      struct stat status {};
      stat(entry.path().c_str(), &status);
      const bool survives =
          unsynced == Unsynced::kStampsSurvive && entry.path().string().ends_with("weft.json");
      if (!survives && !synced_files.contains(std::to_string(status.st_ino)))
        fs::resize_file(entry.path(), 0);
    }
    if (unsynced != Unsynced::kEarlierNamesAreLost || unsynced_names.empty()) return;
    for (auto name = unsynced_names.begin(); name + 1 != unsynced_names.end(); ++name) {
      // The name is that of the file before, if there was one: a stamp whose contents were not
      // synced.
      if (synced_names.contains(*name)) {
        fs::resize_file(*name, 0);
      } else {
        fs::remove(*name);
      }
    }
  }

  TemporaryFolder folder_{memory_folder()};
  const fs::path cache_ = folder_ / "cache";
  SampleOrder options_;
  Samples expected_;
};

TEST_F(PowerCut, LeavesNoIndexThatIsWrong) {
  for (const Unsynced unsynced :
       {Unsynced::kIsLost, Unsynced::kStampsSurvive, Unsynced::kEarlierNamesAreLost}) {
    int64_t call = 1;
    for (bool is_cut = true; is_cut && !HasFailure(); call += 2) {
      SCOPED_TRACE("call " + std::to_string(call) + ", mode " +
                   std::to_string(static_cast<int>(unsynced)));
      fs::remove_all(cache_);
      is_cut = cut_at(call);
      if (fs::exists(cache_)) lose_unsynced(unsynced);
      SampleOrder looking = options_;
      looking.maps_caches_only = looking.takes_megatron_caches = true;
      EXPECT_EQ(samples_of(looking), expected_);
      EXPECT_EQ(samples_of(options_), expected_);
    }
    EXPECT_GT(call, 50);
  }
}

}  // namespace
}  // namespace weft
