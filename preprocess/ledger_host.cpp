#include "preprocess/ledger_host.h"

#include <vector>

namespace weft {

LedgerReply LedgerHost::answer(int rank, const LedgerRequest& request) {
  const std::lock_guard lock(mutex_);
  LedgerReply reply = ledger_.answer(rank, request);
  requests_[rank] = request.number;
  reply.journaled_request = journaled_[rank];
  return reply;
}

void LedgerHost::rank_lost(int rank) {
  const std::lock_guard lock(mutex_);
  ledger_.rank_lost(rank);
}

void LedgerHost::fail(RunFailure failure) {
  const std::lock_guard lock(mutex_);
  ledger_.fail(std::move(failure));
}

void LedgerHost::write_journal() {
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

}  // namespace weft
