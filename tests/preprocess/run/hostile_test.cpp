// A run meets hostile conditions: other things in the place of its files, sizes that no file has,
// writes that end half-way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/run/finish_run.h"
#include "preprocess/web/download_state.h"
#include "tests/faults/forked_run.h"
#include "tests/indexed_dataset/nested_json.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A file of holes only; false where the file system has none of that size.
bool make_file_of_holes(const fs::path& path, int64_t size_bytes) {
  std::ofstream(path, std::ios::binary).close();
  std::error_code error;
  fs::resize_file(path, static_cast<uintmax_t>(size_bytes), error);
  return !error;
}

const std::atomic<bool> kNotCancelled{false};

TEST(HostileSizes, AFileIsNeverCutIntoMoreTasksThanCanBeKeptInMind) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "holes.jsonl";
  ASSERT_TRUE(make_file_of_holes(path, 5 << 20));
  const WorkPlan plan = plan_work(make_inputs({path}), /*task_bytes=*/1, kNotCancelled);
  EXPECT_LE(plan.tasks.size(), size_t{1 << 20} + 1);
  int64_t begin = 0;
  for (const Task& task : plan.tasks) {
    ASSERT_EQ(task.begin, begin);
    begin = task.end;
  }
  EXPECT_EQ(begin, 5 << 20);
}

TEST(HostileSizes, InputsWhoseSizesCannotBeAddedAreRefused) {
  const TemporaryFolder folder(memory_folder());
  const std::string path = folder.path() / "holes.jsonl";
  if (!make_file_of_holes(path, INT64_MAX)) GTEST_SKIP() << "no file system for such files";
  EXPECT_THROW(plan_work(make_inputs({path, path}), int64_t{1} << 62, kNotCancelled),
               std::runtime_error);
}

// One of no documents, with this list of inputs.
void write_source_map(const fs::path& path, const std::string& inputs) {
  seal_source_map(path, 0, {"a"});
  std::string bytes = read_file(path).substr(0, 64) + inputs;
  const uint64_t footer_bytes = inputs.size();
  bytes.replace(32, 8, reinterpret_cast<const char*>(&footer_bytes), 8);
  write_file_atomically(path, bytes);
}

class HostileFolder : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 3'000, 1);
    make_reference();
  }
};

TEST_F(HostileFolder, OnlyAFolderIsWorkedIn) {
  const fs::path work = out_folder_ / "d.work", elsewhere = folder_.path() / "elsewhere";
  // By a link the work could lie on another file system, and the commit fail after all is done.
  fs::create_directory(elsewhere);
  write_file_atomically(elsewhere / "journal", "of somebody");
  fs::create_directory_symlink(elsewhere, work);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 2) << end.message;
  EXPECT_THAT(end.message, HasSubstr("d.work' is a link"));
  EXPECT_TRUE(fs::is_symlink(work));
  EXPECT_EQ(read_file(elsewhere / "journal"), "of somebody");
  fs::remove(work);
  // One that leads nowhere, and what is no folder.
  fs::create_symlink(folder_.path() / "nowhere", work);
  EXPECT_THAT(run().message, HasSubstr("is a link"));
  fs::remove(work);
  std::ofstream(work) << "thesis";
  EXPECT_THAT(run().message, HasSubstr("is no folder"));
  EXPECT_EQ(read_file(work), "thesis");
  fs::remove(work);
  expect_rerun_completes("when it is gone");
}

// A commit file is renamed into place; what cuts it off is a disk, and no run has such a hash.
TEST(HostileCommit, OneThatIsCutOffAnywhereIsNotCarriedOut) {
  const TemporaryFolder folder(memory_folder());
  const std::string whole = "weft-commit 3 77\n";
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(folder.path() / "commit", std::ios::binary) << whole.substr(0, size);
    EXPECT_THROW(find_interrupted_commit(folder.path()), std::runtime_error) << size;
  }
  std::ofstream(folder.path() / "commit", std::ios::binary) << whole;
  EXPECT_EQ(find_interrupted_commit(folder.path()), "77");
}

// Lets files grow up to so many bytes while it lives: a write beyond is cut off, the next one
// fails.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t num_bytes) : on_signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{num_bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, on_signal_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*on_signal_)(int);
};

TEST(HostileJournal, WhatComesBehindALineThatWasHalfWrittenIsNotLost) {
  const TemporaryFolder folder(memory_folder());
  const fs::path path = folder.path() / "journal";
  Journal journal(path, "{}");
  journal.add({{1, {}}});
  const size_t num_bytes = read_file(path).size();
  {
    const FileSizeLimit limit(num_bytes + 20);
    EXPECT_THROW(journal.add({{2, {}}}), std::system_error);
  }
  ASSERT_EQ(read_file(path).size(), num_bytes + 20) << "nothing was half written";
  journal.add({{3, {}}});
  const auto content = Journal::read(path);
  ASSERT_TRUE(content);
  EXPECT_TRUE(content->progress.contains(1));
  EXPECT_TRUE(content->progress.contains(3));
}

TEST(HostileJson, NestingEndsNoStack) {
  const TemporaryFolder folder(memory_folder());
  const std::string deep = nested_json(200'000);
  const fs::path prefix = folder.path() / "d";
  for (const std::string& text : {deep, "{\"dataset\":" + deep + "}", std::string(100'000, '[')}) {
    write_file_atomically(dataset_manifest_path(prefix), text);
    EXPECT_THROW(read_dataset_manifest(prefix), std::runtime_error);
    EXPECT_FALSE(parse_download_state(text, 1 << 20));
    write_source_map(sources_path(prefix), text);
    EXPECT_THROW(SourceMap{sources_path(prefix)}, std::runtime_error);
  }
  EXPECT_NO_THROW(parse_json<nlohmann::ordered_json>(nested_json(30)));
}

TEST(HostileJson, CountsThatCannotBeCountedInBytesAreNone) {
  const TemporaryFolder folder(memory_folder());
  const fs::path prefix = folder.path() / "d";
  const auto write = [&](const std::string& documents, const std::string& tokens) {
    write_file_atomically(dataset_manifest_path(prefix), R"({"vocabulary": {"size": 301},
        "dataset": {"documents": )" + documents + R"(, "tokens": )" +
                                                             tokens + "}}");
  };
  write("1", "2");
  EXPECT_EQ(read_dataset_manifest(prefix)->num_tokens, 2);
  for (const char* count : {"-1", "9223372036854775807", "18446744073709551615", "1e300"}) {
    write(count, "2");
    EXPECT_THROW(read_dataset_manifest(prefix), std::runtime_error) << count;
    write("1", count);
    EXPECT_THROW(read_dataset_manifest(prefix), std::runtime_error) << count;
  }
}

}  // namespace
}  // namespace weft
