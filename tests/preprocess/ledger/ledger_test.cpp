// The ledger with ranks of every kind: fast and slow ones, ones that stop half-way, and a run that
// goes on from its journal.
#include "preprocess/ledger/ledger.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr size_t kNumDatasets = 2;

struct TaskText {
  TaskCounts counts;      // of the whole task
  int64_t fails_at = -1;  // of its chunks; -1: it does not
};

// Holds the tasks; chance decides what ranks do with them.
class RandomRun {
 public:
  RandomRun(uint32_t seed, bool with_failures) : random_(seed) {
    const int64_t num_tasks = chance(12) + 1;
    int32_t input_idx = 0;
    for (int64_t number = 0; number < num_tasks; ++number) {
      tasks_.push_back({number, input_idx, number * 100, (number + 1) * 100});
      if (chance(3) == 0) ++input_idx;
      texts_.push_back(some_text());
      if (with_failures && chance(4) == 0) texts_.back().fails_at = chance(kNumChunks);
      limits_.output_bytes.push_back(kNumChunks * 10);  // what spilling all of it takes
    }
    // Ranks may spill all that is ahead, a little of it, or none.
    limits_.max_spill_bytes = chance(3) == 0 ? INT64_MAX : chance(5) * kNumChunks * 10;
    for (int32_t i = 0; i <= input_idx; ++i) names_.push_back("input " + std::to_string(i));
    placed_.resize(tasks_.size());
  }

  void run() {
    start({});
    while (!ledger_->all_done() && !ledger_->failure()) {
      ASSERT_LT(++num_steps_, 20'000) << "no progress";
      if (chance(40) == 0) start(journal_);  // killed: goes on from its journal
      step(static_cast<int>(chance(3)));
      if (::testing::Test::HasFailure()) return;
    }
    check_end();
  }

 private:
  static constexpr int64_t kNumChunks = 5;
  struct Holding {
    int64_t num_read = 0, num_durable = 0;  // chunks
    int64_t num_spilled = 0;
    bool has_offset = false, has_failed = false, is_told = false;
  };

  int64_t chance(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  TaskText some_text() {
    TaskText text;
    text.counts.datasets.resize(kNumDatasets);
    // So that any number of chunks is a share in whole numbers.
    for (DatasetCounts& counts : text.counts.datasets) {
      counts = {kNumChunks * chance(4), kNumChunks * chance(4), kNumChunks * chance(9)};
    }
    text.counts.totals.num_lines = kNumChunks * chance(6);
    text.counts.totals.num_documents = text.counts.totals.num_lines;
    text.counts.num_range_bytes = 100 + chance(50);
    return text;
  }

  TaskCounts part(int64_t number, int64_t num_chunks) const {
    const TaskCounts& whole = texts_[static_cast<size_t>(number)].counts;
    TaskCounts counts;
    for (const DatasetCounts& all : whole.datasets) {
      counts.datasets.push_back({all.num_documents * num_chunks / kNumChunks,
                                 all.num_sequences * num_chunks / kNumChunks,
                                 all.num_tokens * num_chunks / kNumChunks});
    }
    counts.totals.num_lines = whole.totals.num_lines * num_chunks / kNumChunks;
    counts.totals.num_documents = counts.totals.num_lines;
    if (num_chunks == kNumChunks) counts.num_range_bytes = whole.num_range_bytes;
    return counts;
  }

  TaskProgress progress(int64_t number, const Holding& holding) const {
    TaskProgress progress;
    progress.counts = part(number, holding.num_durable);
    progress.next_offset_bytes = holding.num_durable;
    if (holding.num_spilled > 0) progress.spill = {{1, holding.num_spilled}};
    progress.is_read = holding.num_durable == kNumChunks;
    return progress;
  }

  // The offset of a task, by adding up.
  TaskOffset true_offset(int64_t number) const {
    TaskOffset offset;
    offset.datasets.resize(kNumDatasets);
    const int32_t input_idx = tasks_[static_cast<size_t>(number)].input_idx;
    for (int64_t i = 0; i < number; ++i) {
      const TaskCounts& counts = texts_[static_cast<size_t>(i)].counts;
      for (size_t k = 0; k < kNumDatasets; ++k) offset.datasets[k].add(counts.datasets[k]);
      if (tasks_[static_cast<size_t>(i)].input_idx != input_idx) continue;
      offset.num_input_lines += counts.totals.num_lines;
      offset.num_input_bytes += counts.num_range_bytes;
    }
    return offset;
  }

  void start(const std::map<int64_t, TaskProgress>& journal) {
    limits_.num_ranks = static_cast<int>(1 + chance(5));
    ledger_.emplace(tasks_, names_, kNumDatasets, limits_);
    ranks_.clear();
    for (const auto& [number, progress] : journal) ledger_->restore(number, progress);
    // The spill files of an earlier run are there; the limit of that run held for them.
    most_spill_bytes_ = std::max(limits_.max_spill_bytes, ledger_->spill_bytes());
  }

  void step(int rank) {
    LedgerRequest request = work(ranks_[rank]);
    request.num_tasks_wanted = chance(3);
    const LedgerReply reply = ledger_->answer(rank, request);
    EXPECT_LE(ledger_->spill_bytes(), most_spill_bytes_);
    EXPECT_LE(num_spilled_bytes(), ledger_->spill_bytes());
    for (const auto& durable : ledger_->take_changed()) journal_[durable.task] = durable.progress;
    if (reply.failure) return;
    take(reply, ranks_[rank]);
  }

  // Reads, spills and places a little of what it holds.
  LedgerRequest work(std::map<int64_t, Holding>& holdings) {
    LedgerRequest request;
    for (auto at = holdings.begin(); at != holdings.end();) {
      auto& [number, holding] = *at;
      const TaskText& text = texts_[static_cast<size_t>(number)];
      if (!holding.has_failed && holding.num_read < kNumChunks && chance(2) == 0) {
        if (text.fails_at == holding.num_read) {
          holding.has_failed = true;
          RunFailure failure{3, "task " + std::to_string(number), {}};
          if (!request.failed_task || number < request.failed_task->task)
            request.failed_task = LedgerRequest::Failed{number, failure};
        } else {
          ++holding.num_read;
        }
      }
      if (holding.num_read == kNumChunks && !holding.is_told) {
        holding.is_told = true;
        request.read_tasks.push_back({number, text.counts});
      }
      const bool can_write = holding.has_offset || holding.num_spilled > 0 || chance(3) == 0;
      if (can_write && chance(2) == 0) {
        holding.num_durable = std::min(holding.num_read, holding.num_durable + 1 + chance(2));
        holding.num_spilled = holding.has_offset ? 0 : 10 * holding.num_durable;
        request.durable.push_back({number, progress(number, holding)});
        if (holding.num_durable == kNumChunks && holding.num_spilled == 0) {
          place(number);
          at = holdings.erase(at);
          continue;
        }
      }
      ++at;
    }
    return request;
  }

  int64_t num_spilled_bytes() const {
    int64_t sum = 0;
    for (const auto& [rank, holdings] : ranks_) {
      for (const auto& [number, holding] : holdings) {
        sum += holding.num_spilled;
      }
    }
    return sum;
  }

  void place(int64_t number) { ++placed_[static_cast<size_t>(number)]; }

  void take(const LedgerReply& reply, std::map<int64_t, Holding>& holdings) {
    for (const auto& given : reply.assigned) {
      const int64_t number = given.task.number;
      for (const auto& [rank, others] : ranks_) {
        EXPECT_FALSE(others.contains(number)) << "task " << number << " is given twice";
      }
      Holding holding;
      holding.num_durable = holding.num_read = given.progress.next_offset_bytes;
      holding.num_spilled = num_bytes_of(given.progress.spill);
      holdings[number] = holding;
    }
    for (const auto& based : reply.offsets_known) {
      const auto found = holdings.find(based.task);
      ASSERT_NE(found, holdings.end()) << "a offset of a task that this rank does not hold";
      EXPECT_FALSE(found->second.has_offset) << "told twice";
      found->second.has_offset = true;
      const TaskOffset want = true_offset(based.task);
      EXPECT_EQ(based.offset.datasets, want.datasets) << "task " << based.task;
      EXPECT_EQ(based.offset.num_input_lines, want.num_input_lines);
      EXPECT_EQ(based.offset.num_input_bytes, want.num_input_bytes);
    }
  }

  void check_end() {
    int64_t first_failing = 0;
    while (first_failing < std::ssize(texts_) &&
           texts_[static_cast<size_t>(first_failing)].fails_at < 0) {
      ++first_failing;
    }
    if (first_failing < std::ssize(texts_)) {
      ASSERT_TRUE(ledger_->failure());
      EXPECT_EQ(ledger_->failure()->message, "task " + std::to_string(first_failing));
      return;
    }
    EXPECT_FALSE(ledger_->failure());
    TaskOffset end = true_offset(std::ssize(tasks_) - 1);
    for (size_t k = 0; k < kNumDatasets; ++k) {
      end.datasets[k].add(texts_.back().counts.datasets[k]);
    }
    EXPECT_EQ(ledger_->end().datasets, end.datasets);
    int64_t num_lines = 0;
    for (const TaskText& text : texts_) num_lines += text.counts.totals.num_lines;
    int64_t num_counted = 0;
    for (const Task& task : tasks_) {
      num_counted += ledger_->counts(task.number).totals.num_lines;
      EXPECT_GE(placed_[static_cast<size_t>(task.number)], 1) << task.number;
      ASSERT_TRUE(journal_.contains(task.number));
      EXPECT_TRUE(journal_.at(task.number).is_read);
      EXPECT_TRUE(journal_.at(task.number).spill.empty());
    }
    EXPECT_EQ(num_counted, num_lines);
  }

  std::mt19937 random_;
  std::vector<Task> tasks_;
  std::vector<std::string> names_;
  std::vector<TaskText> texts_;
  std::optional<Ledger> ledger_;
  std::map<int, std::map<int64_t, Holding>> ranks_;
  std::map<int64_t, TaskProgress> journal_;
  std::vector<int> placed_;
  Ledger::Limits limits_;
  int64_t most_spill_bytes_ = 0;
  int num_steps_ = 0;
};

TEST(Ledger, EveryTaskIsPlacedWhereItBelongsWhateverRanksDo) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed, false).run();
    if (HasFailure()) return;
  }
}

TEST(Ledger, OfAllFailuresTheFirstInInputOrderIsToldWhateverRanksDo) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed, true).run();
    if (HasFailure()) return;
  }
}

// A slow first stream, and ranks that have done all they may behind it.
class BehindASlowStream : public ::testing::Test {
 protected:
  BehindASlowStream() {
    std::vector<Task> tasks;
    for (int32_t i = 0; i < 10; ++i) tasks.push_back({i, i, 0, 100});
    Ledger::Limits limits;
    limits.num_ranks = 1;
    limits.max_spill_bytes = 300;
    limits.output_bytes.assign(10, 100);
    ledger_.emplace(tasks, std::vector<std::string>(10, "shard"), 1, limits);
  }
  std::vector<int64_t> given(int rank, LedgerRequest request = {}) {
    request.num_tasks_wanted = 10;
    std::vector<int64_t> numbers;
    for (const auto& given : ledger_->answer(rank, request).assigned) {
      numbers.push_back(given.task.number);
    }
    return numbers;
  }
  static TaskProgress whole(int64_t num_spilled_bytes) {
    TaskProgress progress;
    progress.counts.datasets = {{1, 1, 50}};
    if (num_spilled_bytes > 0) progress.spill = {{1, num_spilled_bytes}};
    progress.is_read = true;
    return progress;
  }
  using Numbers = std::vector<int64_t>;
  std::optional<Ledger> ledger_;
};

TEST_F(BehindASlowStream, NoMoreIsHandedOutThanMayBeSpilled) {
  EXPECT_EQ(given(1), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(ledger_->spill_bytes(), 300);
  EXPECT_EQ(given(2), Numbers{});
  // Spilled to its end: what it really takes counts. Half of it, so half a task more would fit.
  LedgerRequest spilled;
  spilled.durable = {{1, whole(50)}};
  EXPECT_EQ(given(1, spilled), Numbers{});
  spilled.durable = {{2, whole(50)}};
  EXPECT_EQ(given(1, spilled), Numbers{4});
  // The stream has come to its end, and 3 need not be spilled. 1 and 2 are still to be copied.
  LedgerRequest read;
  read.read_tasks = {{0, whole(0).counts}};
  EXPECT_EQ(given(1, read), Numbers{});
  EXPECT_EQ(given(1), Numbers{5});
  EXPECT_EQ(ledger_->spill_bytes(), 300) << "1 and 2, 4 and 5";
  LedgerRequest copied;
  copied.durable = {{1, whole(0)}, {2, whole(0)}};
  EXPECT_EQ(given(1, copied), Numbers{6});
}

TEST_F(BehindASlowStream, AStreamThatIsLongerThanThoughtCountsAsItIs) {
  EXPECT_EQ(given(1), (Numbers{0, 1, 2, 3}));
  LedgerRequest spilled;
  TaskProgress half = whole(180);
  half.is_read = false;
  spilled.durable = {{1, half}, {2, whole(100)}};
  EXPECT_EQ(given(1, spilled), Numbers{});
  EXPECT_EQ(ledger_->spill_bytes(), 380) << "a task that was given goes on to its end";
}

}  // namespace
}  // namespace weft
