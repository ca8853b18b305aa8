// A run that is killed while it drops the work of another one, which had ended while it gave its
// files their names: what is left of that is never taken for a commit that only lacks its end.
#include "indexed_dataset/base/storage/file_io.h"
#include "tests/faults/forked_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class DroppedWork : public ForkedRuns {
 protected:
  void SetUp() override {
    add_input("a.jsonl", 20'000, 1);
    make_reference();
  }
};

TEST_F(DroppedWork, KilledAtAnyFileItIsNoCommitAnyMore) {
  // The commit that is dropped has given names to none, one, and all but two of its files.
  for (const char* place : {"commit_rename:1", "commit_rename:2", "commit_rename:4"}) {
    remove_output();
    ASSERT_TRUE(run(crash_at(place)).is_killed());
    fs::remove_all(path("killed"));
    fs::copy(out_folder_, path("killed"), fs::copy_options::recursive);
    int num_kills = 0;
    for (const std::string step : {"journal_removed", "commit_removed",
                                   "work_file_removed:", "work_removed", "marker_removed"}) {
      const bool is_repeated = step.ends_with(':');
      for (int k = 1; is_repeated || k == 1; ++k) {
        ASSERT_LT(k, 50);
        fs::remove_all(out_folder_);
        fs::copy(path("killed"), out_folder_, fs::copy_options::recursive);
        config_.rules.append_eod = config_.overwrite = true;
        const std::string when = place + (" and " + step) + (is_repeated ? std::to_string(k) : "");
        const bool was_killed =
            run(crash_at(is_repeated ? step + std::to_string(k) : step)).is_killed();
        config_.rules.append_eod = config_.overwrite = false;
        if (is_repeated && !was_killed) break;
        ASSERT_TRUE(was_killed) << when;
        ++num_kills;
        // The run whose work was dropped comes back: at once, or when its names are free again.
        const bool has_names = fs::exists(out_folder_ / "d.bin");
        const RunEnd end = run();
        if (end.exit_code == 2) {
          EXPECT_TRUE(has_names) << when << ": " << end.message;
          EXPECT_EQ(end.notes.find("finished the commit"), std::string::npos) << when;
          config_.overwrite = true;
          expect_rerun_completes(when);
          config_.overwrite = false;
        } else {
          EXPECT_EQ(end.exit_code, 0) << when << ": " << end.message;
          EXPECT_TRUE(output() == reference_) << when;
        }
        if (HasFailure()) return;
      }
    }
    EXPECT_GE(num_kills, 7) << place;
  }
}

}  // namespace
}  // namespace weft
