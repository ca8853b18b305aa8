#include "preprocess/ledger/local_ledger.h"

#include <vector>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/start_thread.h"

namespace weft {

LedgerReply LocalLedger::answer(int rank, const LedgerRequest& request) {
  const std::lock_guard lock(mutex_);
  LedgerReply reply = ledger_.answer(rank, request);
  requests_[rank] = request.number;
  reply.journaled_request = journaled_[rank];
  return reply;
}

void LocalLedger::rank_lost(int rank) {
  const std::lock_guard lock(mutex_);
  ledger_.rank_lost(rank);
}

void LocalLedger::fail(RunFailure failure) {
  const std::lock_guard lock(mutex_);
  ledger_.fail(std::move(failure));
}

void LocalLedger::write_journal() {
  const std::lock_guard journal_lock(journal_mutex_);
  std::vector<LedgerRequest::Durable> changed;
  std::map<int, int64_t> requests;
  {
    const std::lock_guard lock(mutex_);
    changed = ledger_.take_changed();
    requests = requests_;
  }
  journal_.add(changed);  // without the lock: a disk may take its time
  const std::lock_guard lock(mutex_);
  journaled_ = std::move(requests);
}

JournalThread::JournalThread(LocalLedger& ledger, std::chrono::milliseconds interval)
    : ledger_(ledger), interval_(interval), thread_(start_thread([this] { write(); })) {}

JournalThread::~JournalThread() { end(); }

std::exception_ptr JournalThread::end() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
  return error_;
}

void JournalThread::write() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval_, [this] { return ends_; })) {
    lock.unlock();
    try {
      ledger_.write_journal();
      crash_point("journal_written");
      lock.lock();
    } catch (const std::exception& error) {
      lock.lock();
      error_ = std::current_exception();
      ledger_.fail({static_cast<int>(exit_code_for(error)), error.what(), {}});
      return;
    }
  }
}

}  // namespace weft
