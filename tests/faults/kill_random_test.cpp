// kill -9 at random times, over and over, until the run is done: the result is that of a run
// nobody disturbed. Prints how much work was done twice.
#include <cstdio>
#include <random>

#include "tests/faults/forked_run.h"

namespace weft {
namespace {

class KillRandom : public ForkedRuns {
 protected:
  // On the disk of the machine, not in memory: syncs take their time.
  KillRandom() : ForkedRuns(std::filesystem::temp_directory_path()) {}
  void SetUp() override {
    add_input("a.jsonl", 300'000, 1);
    add_input("b.jsonl.zst", 900'000, 2);
    add_input("c.jsonl.gz", 200'000, 3);
    add_input("d.jsonl.xz", 900'000, 4);
    config_.task_bytes = 20'000;
    config_.chunk_bytes = 5'000;
    config_.max_held_bytes_per_worker = 50'000;
    make_reference();
  }

  void kill(int num_kills) {
    std::random_device seed;
    const uint32_t chosen = seed();
    std::mt19937 random(chosen);
    SCOPED_TRACE("seed " + std::to_string(chosen));  // times differ anyway
    int num_killed = 0, num_attempts = 0, num_done = 0;
    int64_t num_tokenized = 0;
    while (num_killed < num_kills && num_attempts < 4 * num_kills) {
      ++num_attempts;
      // Mostly early: the less is done at a time, the more often there is something to go on with.
      const auto limit = reference_time_ / (1 + random() % 4);
      const RunEnd end = run({}, limit * (random() % 1000) / 1000);
      num_tokenized += end.num_seen - end.num_restored;
      expect_nothing_half_done("after " + std::to_string(num_killed) + " kills");
      if (end.is_killed()) {
        ++num_killed;
        if (num_killed < num_kills) continue;
      }
      num_done += 1;
      const RunEnd last = expect_rerun_completes("after " + std::to_string(num_killed) + " kills");
      num_tokenized += last.num_seen - last.num_restored;
      remove_output();
      if (HasFailure()) return;
    }
    std::printf(
        "%d kills of %d runs, %d datasets: %.2f times as many documents tokenized as there are\n",
        num_killed, num_attempts, num_done,
        static_cast<double>(num_tokenized) /
            static_cast<double>(num_done * num_reference_documents_));
    EXPECT_GT(num_killed, 0);
  }
};

TEST_F(KillRandom, MakesTheSameFiles) { kill(WEFT_FAULTS_LONG ? 200 : 25); }

}  // namespace
}  // namespace weft
