#include "preprocess/ledger/local_ledger.h"

#include <string_view>
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
        fail(failure_of(error));
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

void LocalLedger::close_journal_after(const std::exception& error) {
  try {
    close_journal();
  } catch (const std::exception& of_journal) {
    if (std::string_view(of_journal.what()) == error.what()) throw;
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
