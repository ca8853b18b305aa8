// The ledger of a run with its journal, in the process of rank 0: its own worker asks it directly,
// other ranks by messages. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "indexed_dataset/base/process/thread_group.h"
#include "preprocess/ledger/journal.h"
#include "preprocess/ledger/ledger.h"

namespace weft {

class LocalLedger final : public LedgerLink {
 public:
  // Called for a spill file when the journal says that it is not needed any more.
  using RemoveSpill = std::function<void(int64_t task, const SpillFile& file)>;
  LocalLedger(Ledger ledger, Journal journal, RemoveSpill remove_spill)
      : journal_(std::move(journal)),
        remove_spill_(std::move(remove_spill)),
        ledger_(std::move(ledger)) {}
  ~LocalLedger() override { end_thread(); }

  // Calls f(Ledger&) while no other thread uses it.
  template <typename F>
  auto with_ledger(F&& f) {
    const std::lock_guard lock(mutex_);
    return f(ledger_);
  }

  LedgerReply answer(int rank, const LedgerRequest& request) {
    return with_ledger([&](Ledger& ledger) { return ledger.answer(rank, request); });
  }
  // Rank 0's own requests.
  LedgerReply exchange(const LedgerRequest& request) override { return answer(0, request); }
  // Returns why the run fails: this, or what came before.
  RunFailure fail(RunFailure failure) {
    return with_ledger([&](Ledger& ledger) {
      ledger.fail(std::move(failure));
      return ledger.failure().value();
    });
  }

  // Writes the journal from time to time, in a thread of its own: a disk may take seconds to sync,
  // and no rank should wait for that. If the journal cannot be written, the run fails.
  void keep_journal(std::chrono::milliseconds interval);
  // Ends that, and writes what is left. Throws why the journal could not be written.
  void close_journal();
  // The same for a run that has failed, whose error its user is to see. Throws only if the run has
  // failed because the journal had, which is then thrown with its own type; else returns why the
  // journal could not be written, "" if it was.
  std::string close_journal_after_failure();

 private:
  void write_journal();
  void end_thread();

  Journal journal_;
  RemoveSpill remove_spill_;
  std::mutex mutex_;
  Ledger ledger_;

  std::mutex end_mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::atomic<bool> is_why_run_fails_{false};  // the journal, which could not be written
  ThreadGroup thread_;
};

}  // namespace weft
