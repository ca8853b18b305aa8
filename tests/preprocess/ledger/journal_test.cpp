// A journal that was cut off anywhere, as a power cut may leave it.
#include "preprocess/ledger/journal.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/ledger/local_ledger.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

constexpr char kIdentity[] = R"({"what":"this"})";

TaskProgress progress_of(int64_t next_offset_bytes) {
  TaskProgress progress;
  progress.next_offset_bytes = next_offset_bytes;
  progress.counts.totals.num_documents = next_offset_bytes / 10;
  progress.counts.datasets = {{1, 2, 3}, {4, 5, 6}};
  progress.counts.written = {{{7, 8}, {9, 10}, {11, 12}, {UINT32_MAX, 14}}, {}};
  progress.spill = {{5, 3}, {6, 4}};
  progress.before_spill = {{1, 1, 1}, {0, 0, 0}};
  return progress;
}

class JournalFile : public ::testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  TemporaryFolder folder_{memory_folder()};
  std::filesystem::path path_ = folder_.path() / "journal";
};

TEST_F(JournalFile, KeepsTheLastProgressOfEachTask) {
  {
    Journal journal(path_, kIdentity);
    journal.add({{3, progress_of(100)}, {1, progress_of(50)}});
    journal.add({{3, progress_of(200)}});
  }
  const auto content = Journal::read(path_);
  ASSERT_TRUE(content);
  EXPECT_EQ(content->identity, kIdentity);
  ASSERT_EQ(content->progress.size(), 2U);
  const TaskProgress& progress = content->progress.at(3);
  EXPECT_EQ(progress.next_offset_bytes, 200);
  EXPECT_EQ(progress.counts.totals.num_documents, 20);
  EXPECT_EQ(progress.counts.datasets, progress_of(0).counts.datasets);
  EXPECT_EQ(progress.counts.written, progress_of(0).counts.written);
  EXPECT_EQ(progress.spill, progress_of(0).spill);
  EXPECT_EQ(progress.before_spill, progress_of(0).before_spill);
}

TEST_F(JournalFile, TornAtAnyByteLosesOnlyWhatWasTornAndGoesOn) {
  std::vector<size_t> ends;  // of the first line, and of those that follow
  {
    Journal journal(path_, kIdentity);
    ends.push_back(read_file(path_).size());
    for (int64_t i = 0; i < 3; ++i) {
      journal.add({{i, progress_of(10 * i)}});
      ends.push_back(read_file(path_).size());
    }
  }
  const std::string whole = read_file(path_);
  for (size_t size = 0; size <= whole.size(); ++size) {
    for (const char* garbage : {"", "\n", "0123456789abcdef {}\n"}) {
      write(whole.substr(0, size) + garbage);
      if (whole.substr(0, size + 1) == read_file(path_)) continue;  // mended, not torn
      const auto content = Journal::read(path_);
      ASSERT_EQ(content.has_value(), size >= ends[0]) << size;
      int64_t num_whole = -1;
      for (const size_t end : ends) num_whole += end <= size ? 1 : 0;
      if (content) {
        EXPECT_EQ(std::ssize(content->progress), num_whole) << size;
      }

      Journal(path_, kIdentity).add({{9, progress_of(90)}});
      const auto after = Journal::read(path_);
      ASSERT_TRUE(after) << size;
      EXPECT_EQ(std::ssize(after->progress), std::max<int64_t>(num_whole, 0) + 1) << size;
      EXPECT_EQ(after->progress.at(9).next_offset_bytes, 90);
    }
  }
}

TEST_F(JournalFile, DamageBeforeWholeLinesIsToldFromATornEnd) {
  {
    Journal journal(path_, kIdentity);
    for (int64_t i = 0; i < 3; ++i) journal.add({{i, progress_of(10)}});
  }
  const std::string whole = read_file(path_);
  EXPECT_FALSE(Journal::read(path_)->is_damaged);
  const auto damaged = [&](size_t at, size_t size) {
    std::string bytes = whole.substr(0, size);
    bytes[at] ^= 1;
    write(bytes);
    return Journal::read(path_)->is_damaged;
  };
  const size_t first_line = whole.find('\n') + 1, second_line = whole.find('\n', first_line) + 1;
  EXPECT_TRUE(damaged(first_line + 30, whole.size()));
  EXPECT_TRUE(damaged(second_line + 30, whole.size()));
  EXPECT_FALSE(damaged(whole.size() - 5, whole.size())) << "the last line";
  EXPECT_FALSE(damaged(second_line + 30, second_line + 60)) << "a torn line";
}

TEST_F(JournalFile, AnyFlippedBitEndsWhatIsBelieved) {
  {
    Journal journal(path_, kIdentity);
    journal.add({{0, progress_of(10)}});
    journal.add({{1, progress_of(20)}});
  }
  const std::string whole = read_file(path_);
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    write(flipped);
    const auto content = Journal::read(path_);
    if (!content) continue;
    EXPECT_EQ(content->identity, kIdentity);
    EXPECT_LT(content->progress.size(), 2U) << i;
    if (content->progress.contains(0)) {
      EXPECT_EQ(content->progress.at(0).next_offset_bytes, 10);
    }
  }
}

// Lines whose hash is right, as another version or a program of somebody else may write them.
TEST_F(JournalFile, LinesThatAreNoProgressAreAnError) {
  Journal(path_, kIdentity).add({{0, progress_of(10)}});
  const std::string whole = read_file(path_);
  const size_t begin = whole.find('\n') + 1;
  const std::string progress = whole.substr(begin + 17, whole.size() - begin - 18);
  const auto reads = [&](const std::string& text) {
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016lx", XXH3_64bits(text.data(), text.size()));
    write(whole.substr(0, begin) + hash + " " + text + "\n");
    return Journal::read(path_)->progress.size();
  };
  EXPECT_EQ(reads(progress), 1U);
  for (const std::string& text :
       {std::string("{}"), progress.substr(1), progress + "0", progress.substr(2), progress + "00",
        std::string(progress).replace(0, 1, "x")}) {
    EXPECT_THROW(reads(text), std::runtime_error) << text;
  }
}

// Before, the next run could need them.
TEST_F(JournalFile, SpillFilesAreRemovedWhenItSaysThatTheyWereCopied) {
  std::vector<int64_t> removed;  // their writers
  LocalLedger ledger(Ledger({{0, 0, 0, 100}}, {"corpus"}, 1, {}), Journal(path_, kIdentity),
                     [&](int64_t task, const SpillFile& file) {
                       EXPECT_EQ(Journal::read(path_)->progress.at(task).next_offset_bytes, 100);
                       removed.push_back(file.process_id);
                     });
  LedgerRequest request;
  request.num_tasks_wanted = 1;
  ASSERT_EQ(ledger.exchange(request).assigned.size(), 1U);
  TaskProgress progress;
  progress.counts.datasets = {{1, 1, 5}};
  progress.next_offset_bytes = 100;
  LedgerRequest copied, done;
  copied.durable = {{0, progress, {{7, 30}, {8, 5}}}};
  progress.is_read = true;
  done.durable = {{0, progress}};
  ledger.exchange(copied);
  ledger.exchange(done);  // before the journal was written
  EXPECT_TRUE(removed.empty());
  ledger.close_journal();
  EXPECT_EQ(removed, (std::vector<int64_t>{7, 8}));
  ledger.close_journal();
  EXPECT_EQ(removed.size(), 2U) << "each is removed once";
}

// The error of the clean-up hid why the run had failed.
TEST_F(JournalFile, AJournalThatCannotBeWrittenHidesNoOtherError) {
  const auto ledger_with_news = [this] {
    auto ledger =
        std::make_unique<LocalLedger>(Ledger({{0, 0, 0, 100}}, {"corpus"}, 1, {}),
                                      Journal(path_, kIdentity), LocalLedger::RemoveSpill());
    LedgerRequest request, durable;
    request.num_tasks_wanted = 1;
    ledger->exchange(request);
    durable.durable = {{0, progress_of(50)}};
    durable.durable[0].progress.counts.datasets = {{1, 1, 5}};
    ledger->exchange(durable);
    return ledger;
  };
  auto ledger = ledger_with_news();
  set_io_fault(1, ENOSPC);
  EXPECT_THROW(ledger->close_journal(), std::system_error);
  ledger = ledger_with_news();
  set_io_fault(1, ENOSPC);
  EXPECT_NE(ledger->close_journal_after_failure(), "") << "it is not said that work is lost";
  set_io_fault(0, 0);

  // The thread that keeps the journal fails first, and the run hears of it through the ledger.
  ledger = ledger_with_news();
  set_io_fault(1, ENOSPC);
  ledger->keep_journal(std::chrono::milliseconds(1));
  std::optional<RunFailure> failure;
  while (!failure) failure = ledger->exchange({}).failure;
  set_io_fault(0, 0);
  const RunFailed news(failure->exit_code, failure->message);
  try {
    ledger->close_journal_after_failure();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
    EXPECT_EQ(exit_code_for(error), exit_code_for(news));
  }
}

TEST_F(JournalFile, AJournalOfAnotherRunIsBegunAnew) {
  Journal(path_, "{}").add({{0, progress_of(10)}});
  Journal journal(path_, kIdentity);
  EXPECT_EQ(Journal::read(path_)->identity, kIdentity);
  EXPECT_TRUE(Journal::read(path_)->progress.empty());
}

}  // namespace
}  // namespace weft
