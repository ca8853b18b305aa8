// The ledger of a run with its journal, in the process of rank 0: its own worker asks it directly,
// other ranks by messages. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/ledger.h"

namespace weft {

class LocalLedger final : public LedgerLink {
 public:
  LocalLedger(Ledger ledger, Journal journal)
      : journal_(std::move(journal)), ledger_(std::move(ledger)) {}

  LedgerReply answer(int rank, const LedgerRequest& request);
  // Rank 0's own requests.
  LedgerReply exchange(const LedgerRequest& request) override { return answer(0, request); }
  void rank_lost(int rank);
  void fail(RunFailure failure);

  // Writes what has changed since the last call to the journal, and syncs it.
  void write_journal();

  // Calls f(Ledger&) while nobody else uses it.
  template <typename F>
  auto with_ledger(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(ledger_);
  }

 private:
  std::mutex journal_mutex_;  // taken first
  Journal journal_;
  std::mutex mutex_;
  Ledger ledger_;
  std::map<int, int64_t> requests_, journaled_;  // by rank
};

// Writes the ledger's journal from time to time, in a thread of its own: a disk may take seconds to
// sync, and nobody should wait for that.
class JournalThread {
 public:
  JournalThread(LocalLedger& ledger, std::chrono::milliseconds interval);
  ~JournalThread();  // as end()

  // Ends the thread; what is left is not written. If the journal could not be written, the run has
  // been made to fail, and this is why; else null.
  std::exception_ptr end();

 private:
  void write();

  LocalLedger& ledger_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace weft
