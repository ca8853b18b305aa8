// A request to stop (SIGTERM, Slurm's signal) that comes in the passes over all that was written:
// index, checksums.
#include <filesystem>
#include <fstream>

#include "tests/faults/forked_run.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class StopAtEnd : public ForkedRuns {
 protected:
  // Asks to stop at each place in turn at which these passes look for that.
  void stop_at_every_check() {
    int num_stops = 0;
    for (int k = 1;; ++k) {
      ASSERT_LT(k, 100);
      const std::string there = path("there"), waiting = there + ".waiting";
      std::ofstream(there).close();  // the crash point only says that it was reached
      fs::remove(waiting);
      stop_if_ = [=] { return fs::exists(waiting); };
      const RunEnd stopped = run(crash_at("last_passes:" + std::to_string(k) + ":" + there));
      stop_if_ = {};
      if (!fs::exists(waiting)) {
        EXPECT_EQ(stopped.exit_code, 0) << stopped.message;
        break;
      }
      ++num_stops;
      const std::string when = "stopped at check " + std::to_string(k);
      EXPECT_EQ(stopped.exit_code, 10) << stopped.message << ", " << when;
      for (const auto& entry : fs::directory_iterator(out_folder_)) {
        const std::string name = entry.path().filename();
        EXPECT_TRUE(name == "d.work" || name == "d.lock") << name << " is there, " << when;
      }
      const RunEnd end = expect_rerun_completes(when);
      EXPECT_EQ(end.num_restored, num_reference_documents_) << "all was written, " << when;
      remove_output();
      if (HasFailure()) return;
    }
    EXPECT_GE(num_stops, 5);  // offsets, bounds, checksums of .bin, .idx and .sources
  }
};

TEST_F(StopAtEnd, AStopIsNoticedInEveryPassAndTheRerunOnlyFinishes) {
  add_input("a.jsonl", 60'000, 1);
  make_reference();
  stop_at_every_check();
}

}  // namespace
}  // namespace weft
