#include "preprocess/ledger/local_ledger.h"

#include <vector>

#include "indexed_dataset/base/process/crash_point.h"

namespace weft {

void LocalLedger::keep_journal(std::chrono::milliseconds interval) {
  thread_.start([this, interval] {
    std::unique_lock lock(end_mutex_);
    while (!ended_.wait_for(lock, interval, [this] { return ends_; })) {
      try {
        write_journal();
        crash_point("journal_written");
      } catch (const std::exception& error) {
        is_why_run_fails_ = with_ledger([&](Ledger& ledger) {
          const bool is_first = !ledger.failure();
          ledger.fail(failure_of(error));
          return is_first;
        });
        throw;
      }
    }
  });
}

void LocalLedger::close_journal() {
  end_thread();
  thread_.check();
  write_journal();
}

std::string LocalLedger::close_journal_after_failure() {
  try {
    close_journal();
    return "";
  } catch (const std::exception& error) {
    if (is_why_run_fails_) throw;
    return error.what();
  }
}

void LocalLedger::end_thread() {
  {
    const std::lock_guard lock(end_mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void LocalLedger::write_journal() {
  const auto changed = with_ledger([](Ledger& ledger) { return ledger.take_changed(); });
  journal_.add(changed);
  for (const LedgerRequest::Durable& durable : changed) {
    for (const SpillFile& file : durable.copied_spill) remove_spill_(durable.task, file);
  }
}

}  // namespace weft
