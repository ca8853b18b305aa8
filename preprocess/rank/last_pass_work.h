// A rank's part of the last passes (last_passes.h): its workers complete the index of some
// tasks, or read a part of a file back.
#pragma once

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/rank/tokenizer_pool.h"

namespace weft {

// Opens the files anew, so that a file system whose clients have caches of their own shows what
// other machines wrote and closed or synced before; what this writes is synced. `check` is called
// every few hundred KiB; what it throws ends the work, which can be done again. Thread-safe. Throws
// std::system_error.
LastPassResult carry_out(const LastPassPart& part, RunFiles& files,
                         const std::function<void()>& check);

// The parts in the hands of a rank. For the thread that empties the inbox; the pool does the work.
class LastPassWork {
 public:
  // All references must outlive it, and the pool must have ended before.
  LastPassWork(RunFiles& files, TokenizerPool& pool) : files_(files), pool_(pool) {}

  void start(LastPassPart part);
  // From now on parts end early, with an error. From any thread.
  void cancel() { is_cancelled_ = true; }

  int num_underway() const { return num_underway_; }
  bool has_results() const { return !results_.empty(); }
  std::vector<LastPassResult> take_results() { return std::exchange(results_, {}); }

 private:
  RunFiles& files_;
  TokenizerPool& pool_;
  std::atomic<bool> is_cancelled_{false};
  int num_underway_ = 0;
  std::vector<LastPassResult> results_;
};

}  // namespace weft
