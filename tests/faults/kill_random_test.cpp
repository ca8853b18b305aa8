// kill -9 at random times, over and over, until the run is done: the result is that of an
// undisturbed run. Prints how much work was done twice.
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

  // Every file of the output and of the work, with its size.
  std::map<std::string, uintmax_t> files() const {
    std::map<std::string, uintmax_t> sizes;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out_folder_)) {
      if (entry.is_regular_file()) sizes[entry.path()] = entry.file_size();
    }
    return sizes;
  }

  // Until so many kills have hit a run that had begun to write.
  void kill(int num_kills) {
    std::random_device seed;
    const uint32_t chosen = seed();
    std::mt19937 random(chosen);
    SCOPED_TRACE("seed " + std::to_string(chosen));  // times differ anyway
    int num_hits = 0, num_attempts = 0, num_done = 0;
    int64_t num_tokenized = 0;
    std::chrono::microseconds limit = reference_time_;
    while (num_hits < num_kills && num_attempts < 20 * num_kills) {
      ++num_attempts;
      const auto before = files();
      // Mostly early: the less is done at a time, the more often there is something to go on with.
      const RunEnd end = run({}, limit * (random() % 1000) / 1000 / (1 + random() % 4));
      num_tokenized += end.num_seen - end.num_restored;
      const bool is_hit = end.is_killed() && files() != before;
      num_hits += is_hit ? 1 : 0;
      // The machine may be faster or slower by now than it was for the reference.
      if (!is_hit) limit = end.is_killed() ? limit * 5 / 4 : limit * 4 / 5;
      const std::string when = "after " + std::to_string(num_hits) + " kills";
      expect_nothing_half_done(when);
      if (end.is_killed() && num_hits < num_kills) continue;
      num_done += 1;
      const RunEnd last = expect_rerun_completes(when);
      num_tokenized += last.num_seen - last.num_restored;
      remove_output();
      if (HasFailure()) return;
    }
    std::printf(
        "%d kills of working runs, %d runs, %d datasets: %.2f times as many documents tokenized as "
        "there are\n",
        num_hits, num_attempts, num_done,
        static_cast<double>(num_tokenized) /
            static_cast<double>(num_done * num_reference_documents_));
    EXPECT_EQ(num_hits, num_kills);
    EXPECT_GE(num_hits, num_done) << "few datasets were made by several runs";
  }
};

TEST_F(KillRandom, KilledAtRandomTheRunMakesTheSameFiles) { kill(WEFT_FAULTS_LONG ? 200 : 25); }

}  // namespace
}  // namespace weft
