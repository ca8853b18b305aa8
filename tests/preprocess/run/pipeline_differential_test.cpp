// Whatever the sizes of tasks, chunks and memory, the number of workers, and interruptions: the
// same files as those of one worker with one task for each input.
#include <random>

#include "tests/faults/forked_run.h"

namespace weft {
namespace {

class Differential : public ForkedRuns {
 protected:
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  void choose_sizes() {
    config_.num_workers = one_of({1, 2, 3, 5});
    config_.task_bytes = one_of<int64_t>({150, 700, 5'000, 100'000, int64_t{1} << 25});
    config_.chunk_bytes = one_of<size_t>({100, 3'000, 70'000, size_t{1} << 20});
    config_.max_held_bytes_per_worker = one_of<int64_t>({1, 10'000, int64_t{1} << 25});
    config_.sync_interval = std::chrono::milliseconds(one_of({0, 1, 1000}));
  }
  std::string sizes() const {
    return std::to_string(config_.num_workers) + " workers, tasks of " +
           std::to_string(config_.task_bytes) + ", chunks of " +
           std::to_string(config_.chunk_bytes) + ", " +
           std::to_string(config_.max_held_bytes_per_worker) + " held";
  }
  void expect_killed_runs_complete(int num_rounds) {
    for (int round = 0; round < num_rounds; ++round) {
      choose_sizes();
      config_.task_bytes = std::max<int64_t>(config_.task_bytes, 2'000);
      const int64_t task_bytes = config_.task_bytes;
      std::string when;
      for (int life = 0; life < 3; ++life) {
        config_.sync_interval = std::chrono::milliseconds(0);
        constexpr const char* kPlaces[] = {"journal_synced", "journal_behind", "spilled",
                                           "pair_placed", "batch_unspilled"};
        const std::string place =
            std::string(kPlaces[random_() % 5]) + ":" + std::to_string(random_() % 12 + 1);
        when += sizes() + " until " + place + "; ";
        run(crash_at(place));
        expect_nothing_half_done(when);
        choose_sizes();
        config_.task_bytes = task_bytes;
      }
      expect_rerun_completes(when + sizes());
      remove_output();
      if (HasFailure()) return;
    }
  }
  std::mt19937 random_{7};
};

TEST_F(Differential, SmallInputsOfAllFormats) {
  add_input("a.jsonl", 12'000, 1);
  add_input("b.jsonl.zst", 6'000, 2);
  add_input("c.jsonl", 0, 3);
  add_input("d.jsonl.gz", 6'000, 4);
  add_input("e.jsonl.xz", 6'000, 5);
  add_input("f.jsonl", 9'000, 6);
  make_reference();
  for (int round = 0; round < 25; ++round) {
    choose_sizes();
    expect_rerun_completes(sizes());
    remove_output();
    if (HasFailure()) return;
  }
}

TEST_F(Differential, DocumentsThatSayWhereTheyAreFrom) {
  config_.rules.origin_key = "auto";
  add_input("a.jsonl", 12'000, 1);
  add_input("b.jsonl.zst", 6'000, 2);
  add_input("c.jsonl.gz", 6'000, 3);
  make_reference();
  EXPECT_NE(reference_[".sources"].find("site-7.example"), std::string::npos);
  for (int round = 0; round < 10; ++round) {
    choose_sizes();
    expect_rerun_completes(sizes());
    remove_output();
    if (HasFailure()) return;
  }
  expect_killed_runs_complete(6);
}

// Each way of splitting, with files that are split in no other place than between them.
class Texts : public Differential, public ::testing::WithParamInterface<SplitAt> {
 protected:
  Texts() { config_.rules.split_texts_at = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Differential, Texts,
                         ::testing::Values(SplitAt::kLine, SplitAt::kBlankLine, SplitAt::kNowhere));

TEST_P(Texts, AreTheSameHoweverTheyAreRead) {
  add_input("a.txt", 12'000, 1);
  add_input("b.txt.zst", 6'000, 2);
  add_input("c.txt", 0, 3);
  for (uint32_t i = 0; i < 12; ++i) add_input(std::to_string(i) + ".md", 1'500, i + 4);
  add_input("e.txt.gz", 6'000, 20);
  make_reference();
  for (int round = 0; round < 10; ++round) {
    choose_sizes();
    expect_rerun_completes(sizes());
    remove_output();
    if (HasFailure()) return;
  }
  expect_killed_runs_complete(6);
}

// Tokens, and where each document came from.
TEST_F(Differential, ShardsInOrderMakeTheWhole) {
  add_input("a.jsonl", 30'000, 1);
  add_input("b.jsonl.zst", 6'000, 2);
  add_input("c.jsonl", 40'000, 3);
  make_reference();
  const auto entries = [](const std::string& sources) {  // without header and footer
    return sources.substr(64, sources.find("{\"inputs\"") - 64);
  };
  for (const int64_t num_shards : {2, 3, 7}) {
    std::string tokens, sources;
    config_.num_shards = num_shards;
    for (config_.shard_idx = 0; config_.shard_idx < num_shards; ++config_.shard_idx) {
      ASSERT_EQ(run().exit_code, 0);
      tokens += output()[".bin"];
      sources += entries(output()[".sources"]);
      remove_output();
    }
    EXPECT_TRUE(tokens == reference_[".bin"]) << num_shards;
    EXPECT_TRUE(sources == entries(reference_[".sources"])) << num_shards;
  }
}

// Large enough that frames and blocks are tasks of their own.
TEST_F(Differential, InputsOfSeveralParts) {
  add_input("a.jsonl.zst", 4'000'000, 1);
  add_input("b.jsonl", 300'000, 2);
  add_input("c.jsonl.xz", 4'000'000, 3);
  make_reference();
  for (int round = 0; round < 5; ++round) {
    choose_sizes();
    config_.chunk_bytes = std::max<size_t>(config_.chunk_bytes, 20'000);
    config_.task_bytes = std::max<int64_t>(config_.task_bytes, 3'000);
    expect_rerun_completes(sizes());
    remove_output();
    if (HasFailure()) return;
  }
}

// xz is decoded by its own threads, and results wait for their places.
TEST_F(Differential, CompressedInputsSideBySide) {
  for (uint32_t i = 0; i < 9; ++i)
    add_input("in" + std::to_string(i) + (i % 3 == 0 ? ".jsonl.zst" : ".jsonl.xz"), 40'000, i);
  make_reference();
  for (int round = 0; round < 12; ++round) {
    choose_sizes();
    config_.num_workers = 8;
    if (round % 3 == 2) {
      run(crash_at("batch_written:" + std::to_string(random_() % 40 + 1)));
      expect_nothing_half_done(sizes());
    }
    expect_rerun_completes(sizes());
    remove_output();
    if (HasFailure()) return;
  }
}

// With other sizes each time it goes on: only those that name the work (task_bytes) must stay.
TEST_F(Differential, RunsThatAreKilledAndGoOnWithOtherSizes) {
  add_input("a.jsonl", 60'000, 1);
  add_input("b.jsonl.zst", 20'000, 2);
  add_input("c.jsonl.gz", 20'000, 3);
  make_reference();
  expect_killed_runs_complete(12);
}

}  // namespace
}  // namespace weft
