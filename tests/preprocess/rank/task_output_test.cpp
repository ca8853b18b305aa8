// A task in the hands of a rank: chunks in any order, an offset that comes at any time, writes that
// end in any order, and crashes that leave what was told last.
#include "preprocess/rank/task_output.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "preprocess/rank/run_files.h"

namespace weft {
namespace {

constexpr int64_t kOffsetDocuments = 1000;

// Documents are their numbers, in the token of their one sequence: what lies where can be compared.
class Crashes {
 public:
  explicit Crashes(uint32_t seed) : random_(seed), num_chunks_(chance(12)) {
    for (int64_t i = 0; i <= num_chunks_; ++i) {
      first_documents_.push_back(num_documents_);
      if (i < num_chunks_) num_documents_ += chance(4);
    }
  }

  void run() {
    while (!told_.is_done()) {
      ASSERT_LT(++num_lives_, 200);
      live();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(told_.counts.totals.num_documents, num_documents_);
    ASSERT_EQ(std::ssize(placed_), num_documents_);
    for (const auto& [place, document] : placed_) EXPECT_EQ(place, kOffsetDocuments + document);
  }

 private:
  int64_t chance(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  ChunkPtr chunk(int64_t idx, int64_t first_chunk) {
    auto made = std::make_shared<Chunk>();
    made->idx = idx;
    const int64_t number = first_chunk + idx;
    made->ends_task = number == num_chunks_;
    if (made->ends_task) return made;
    made->next_offset_bytes = number + 1;
    made->batch.outputs.resize(1);
    Batch::Output& output = made->batch.outputs[0];
    const int64_t begin = first_documents_[static_cast<size_t>(number)],
                  end = first_documents_[static_cast<size_t>(number) + 1];
    for (int64_t document = begin; document < end; ++document) {
      output.sequence_lengths.push_back(1);
      output.document_sequences.push_back(1);
      output.locators.push_back(document);
    }
    made->batch.num_documents = end - begin;
    return made;
  }

  // From a start to a crash, or to the end.
  void live() {
    const int64_t first_chunk = told_.next_offset_bytes;
    std::set<int64_t> unread;
    if (!told_.is_read) {
      for (int64_t i = 0; first_chunk + i <= num_chunks_; ++i) unread.insert(i);
    }
    TaskOutput task(Task{}, told_, 1, num_lives_);
    std::vector<TaskOutput::BatchPtr> underway;
    bool is_unspilling = false;
    for (int num_steps = 0; !task.is_done() && chance(60) != 0; ++num_steps) {
      ASSERT_LT(num_steps, 10'000);
      switch (chance(5)) {
        case 0:  // one of the next few comes
          if (unread.empty()) break;
          {
            auto at = unread.begin();
            std::advance(at, chance(std::min<int64_t>(3, std::ssize(unread))));
            task.put(chunk(*at, first_chunk));
            unread.erase(at);
          }
          while (ChunkPtr next = task.take_next()) {
            if (next->ends_task) {
              task.end(*next);
            } else {
              task.add(*next);
            }
          }
          break;
        case 1:
          if (chance(6) == 0 && !task.has_offset()) {
            task.set_offset({{{kOffsetDocuments, kOffsetDocuments, kOffsetDocuments}}, 0, 0});
          }
          break;
        case 2:
          if (chance(3) == 0 && !task.has_offset() && task.num_held_bytes() > 0)
            task.begin_spilling();
          break;
        case 3:
          if (!underway.empty()) {
            const auto at = underway.begin() + chance(std::ssize(underway));
            write(**at);
            task.batch_written(**at);
            underway.erase(at);
          } else if (is_unspilling) {
            unspill(task.spill_offset().datasets[0].num_documents, task.spill());
            task.unspilled();
            is_unspilling = false;
          }
          break;
        default:
          for (TaskOutput::BatchPtr& batch : task.take_writable()) underway.push_back(batch);
          if (task.take_unspill()) is_unspilling = true;
      }
      // Synced, and in the journal: all that it speaks of is on disk now.
      if (task.take_changed() && chance(2) == 0) told_ = task.written();
      check_told();
    }
    if (task.is_done()) told_ = task.written();
  }

  void write(const TaskOutput::HeldBatch& batch) {
    int64_t place = batch.spilled_at >= 0 ? -1 : batch.offset.datasets[0].num_documents;
    if (batch.spilled_at >= 0) {
      spill_[{num_lives_, batch.spilled_at}] = {batch.tokens.outputs[0].locators,
                                                batch.spilled_at + batch.spilled_bytes};
      return;
    }
    for (const int64_t document : batch.tokens.outputs[0].locators) placed_[place++] = document;
  }

  // Returns the documents that the first bytes of the spill files hold.
  std::vector<int64_t> spilled(const std::vector<SpillFile>& spill) {
    std::vector<int64_t> documents;
    for (const SpillFile& file : spill) {
      for (int64_t at = 0; at < file.num_bytes;) {
        const SpilledBatch& batch = spill_.at({file.process_id, at});
        documents.insert(documents.end(), batch.documents.begin(), batch.documents.end());
        at = batch.end;
      }
    }
    return documents;
  }
  void unspill(int64_t place, const std::vector<SpillFile>& spill) {
    for (const int64_t document : spilled(spill)) placed_[place++] = document;
  }

  // All documents that were told are at their place, or in the spill file, in order.
  void check_told() {
    int64_t num_placed = told_.counts.totals.num_documents;
    if (!told_.spill.empty()) {
      num_placed = told_.before_spill.at(0).num_documents;
      const std::vector<int64_t> documents = spilled(told_.spill);
      ASSERT_EQ(num_placed + std::ssize(documents), told_.counts.totals.num_documents);
      for (size_t i = 0; i < documents.size(); ++i)
        ASSERT_EQ(documents[i], num_placed + static_cast<int64_t>(i));
    }
    for (int64_t i = 0; i < num_placed; ++i) ASSERT_EQ(placed_.at(kOffsetDocuments + i), i);
    ASSERT_EQ(told_.counts.totals.num_documents,
              first_documents_[static_cast<size_t>(told_.next_offset_bytes)]);
  }

  std::mt19937 random_;
  int64_t num_chunks_, num_documents_ = 0;
  std::vector<int64_t> first_documents_;  // by chunk, and one more
  TaskProgress told_;
  // The disk.
  std::map<int64_t, int64_t> placed_;  // document by place
  struct SpilledBatch {
    std::vector<int64_t> documents;
    int64_t end = 0;
  };
  std::map<std::pair<int64_t, int64_t>, SpilledBatch> spill_;  // by process and offset
  int64_t num_lives_ = 0;
};

TEST(TaskOutput, NoDocumentIsLostOrMisplacedWhenItCrashesAtAnyTime) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crashes(seed).run();
    if (HasFailure()) return;
  }
}

TEST(TaskOutput, ChunksComeOutInOrder) {
  TaskOutput task(Task{}, {}, 1, 1);
  for (const int64_t idx : {2, 0, 3, 1}) {
    auto chunk = std::make_shared<Chunk>();
    chunk->idx = idx;
    task.put(std::move(chunk));
  }
  for (int64_t idx = 0; idx < 4; ++idx) EXPECT_EQ(task.take_next()->idx, idx);
  EXPECT_EQ(task.take_next(), nullptr);
}

}  // namespace
}  // namespace weft
