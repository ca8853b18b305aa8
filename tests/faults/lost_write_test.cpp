// A file system that loses a page of what was written, and says nothing: a run ends with exit code
// 6 before there is a dataset, and the same command again makes what an undisturbed run makes.
#include <set>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class LostWrite : public ForkedRuns {
 protected:
  static bool is_the_data(const std::map<std::string, std::string>& one,
                          const std::map<std::string, std::string>& other) {
    return one.at(".bin") == other.at(".bin") && one.at(".idx") == other.at(".idx") &&
           one.at(".sources") == other.at(".sources");
  }

  // A run whose `n`-th I/O call, or the first write of the same thread behind it, loses a page. How
  // the run ended.
  RunEnd lose(int64_t n) {
    const RunEnd end = run([=] { set_io_fault(n, kIoFaultLosesPage); });
    const std::string when = "call " + std::to_string(n) + " loses a page";
    if (end.exit_code == 0) {
      EXPECT_TRUE(is_the_data(output(), reference_)) << "silently wrong data: " << when;
      return end;
    }
    EXPECT_EQ(end.exit_code, 6) << end.message << ", " << when;
    EXPECT_EQ(output().at(".idx"), "") << when;
    return end;
  }
  // Returns about `count` calls of a run, spread evenly.
  std::set<int64_t> calls(int64_t count) const {
    std::set<int64_t> chosen;
    for (int64_t i = 0; i < count; ++i) chosen.insert(1 + i * num_reference_calls_ / count);
    return chosen;
  }
};

TEST_F(LostWrite, ALostWriteIsAnErrorAndTheNextRunMakesItAnew) {
  config_.rules.origin_key = "auto";
  add_input("a.jsonl", 20'000, 1);
  add_input("b.jsonl.zst", 5'000, 2);
  add_input("c.jsonl.gz", 5'000, 3);
  make_reference();
  const std::vector<std::string> names = {"0.bin", "0.idx", "0.bounds", "0.sources"};
  std::set<std::string> files;  // those of them that lost something
  const auto lose_and_run_again = [&](int64_t n) {
    const RunEnd end = lose(n);
    if (end.exit_code == 6) {
      for (const std::string& name : names) {
        if (end.message.find(name) != std::string::npos) files.insert(name);
      }
      if (end.message.find("spill.") == std::string::npos) {
        EXPECT_NE(end.message.find("--shard"), std::string::npos) << end.message;
        expect_rerun_completes("behind call " + std::to_string(n) + " lost a page");
      }
    }
    remove_output();
  };
  for (const int64_t n : calls(60)) {
    lose_and_run_again(n);
    if (HasFailure()) return;
  }
  // The turns of threads decide which call writes which file, so 60 of them may miss one.
  for (int64_t n = num_reference_calls_; n > 0 && files.size() < names.size(); --n) {
    lose_and_run_again(n);
    if (HasFailure()) return;
  }
  EXPECT_EQ(files.size(), names.size()) << "some file never lost anything";
}

// The next run knows from the journal what was lost before a run was killed.
TEST_F(LostWrite, ALostWriteIsFoundByTheRunThatGoesOn) {
  add_input("a.jsonl", 30'000, 1);
  make_reference();
  int num_found = 0;
  for (const int64_t n : calls(40)) {
    const RunEnd killed = run([=] {
      crash_at("dataset_prepared")();
      set_io_fault(n, kIoFaultLosesPage);
    });
    if (killed.is_killed()) {
      const RunEnd end = run();
      if (end.exit_code == 6) {
        ++num_found;
        expect_rerun_completes("lost before a kill, call " + std::to_string(n));
      } else if (end.exit_code != 2) {  // the journal's begin was lost
        EXPECT_EQ(end.exit_code, 0) << end.message << ", call " << n;
        EXPECT_TRUE(is_the_data(output(), reference_)) << "silently wrong data, call " << n;
      }
    }
    remove_output();
    if (HasFailure()) return;
  }
  // The journal vouches for what it holds when the run is killed, which depends on its thread's
  // turns.
  EXPECT_GT(num_found, 2);
}

// Only the task that was lost is done again. The journal is whole when the checksums are written.
TEST_F(LostWrite, ALostWriteIsNamedWithInputAndBytes) {
  add_input("a.jsonl", 60'000, 1);
  make_reference();
  ASSERT_TRUE(run(crash_at("checksums_written")).is_killed());
  const fs::path bin = out_folder_ / "d.work" / "0.bin";
  std::string bytes = read_file(bin);
  bytes[bytes.size() / 2] ^= 0x40;
  write_file_atomically(bin, bytes);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 6);
  EXPECT_NE(end.message.find(bin.string()), std::string::npos) << end.message;
  EXPECT_NE(end.message.find("a.jsonl"), std::string::npos) << end.message;
  const RunEnd again = expect_rerun_completes("a bit flipped");
  EXPECT_GT(again.num_restored, num_reference_documents_ / 2);
  EXPECT_LT(again.num_restored, num_reference_documents_);
}

// It took three runs to heal.
TEST_F(LostWrite, ALostEndOfAFileIsFoundAsWhatItIs) {
  add_input("a.jsonl", 60'000, 1);
  make_reference();
  ASSERT_TRUE(run(crash_at("checksums_written")).is_killed());
  const fs::path bin = out_folder_ / "d.work" / "0.bin";
  fs::resize_file(bin, fs::file_size(bin) / 2);
  const RunEnd end = run();
  EXPECT_EQ(end.exit_code, 6) << end.message;
  EXPECT_NE(end.message.find(bin.string()), std::string::npos) << end.message;
  const RunEnd again = expect_rerun_completes("the end of .bin was lost");
  EXPECT_GT(again.num_restored, num_reference_documents_ / 4);
}

}  // namespace
}  // namespace weft
