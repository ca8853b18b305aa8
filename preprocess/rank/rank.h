// The work of one rank of a run: takes tasks from the ledger, reads, tokenizes and writes them.
//
//   ReaderPool      a task       -> chunks of text         (reader_pool.h)
//   TokenizerPool   a chunk      -> a batch of tokens      (tokenizer_pool.h)
//   RankOutput    batches      -> the files of the run   (rank_output.h)
//   LastPassWork    those files  -> index and checksums    (last_pass_work.h)
//
// Rank joins them: the thread that calls run() puts the chunks of a task in order, keeps the books,
// and alone speaks with the ledger.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/last_pass_work.h"
#include "preprocess/rank/rank_options.h"
#include "preprocess/rank/rank_output.h"
#include "preprocess/rank/reader_pool.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/rank/tokenizer_pool.h"

namespace weft {

class Rank {
 public:
  // All references must outlive it.
  Rank(const RankOptions& options, const WorkPlan& plan,
       std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files, LedgerLink& ledger);
  ~Rank() { end_threads(); }

  // Works until the ledger says that all is done. `stop_requested` is asked, and `on_round` called,
  // at least ten times a second. Throws RankStopped; what failed here, if that is why the run
  // fails, RunFailed otherwise; what LedgerLink::exchange throws.
  void run(const std::function<bool()>& stop_requested, const std::function<void()>& on_round);

 private:
  void end_threads();
  void round(const std::function<bool()>& stop_requested);
  void handle(const std::function<void()>& message);
  void post(ChunkPtr chunk);
  void on_chunk(ChunkPtr chunk);
  void accept(TaskOutput& task, Chunk& chunk);
  void fail_task(TaskOutput& task, RunFailure failure);

  void exchange();
  bool has_news() const;
  bool is_idle() const;
  int64_t num_parts_wanted() const;
  LedgerReply send();
  void open_task(const LedgerReply::Assigned& assigned);
  void leave(const RunFailure& failure);
  [[noreturn]] void throw_failure(const RunFailure& failure);
  void send_what_is_safe();

  const RankOptions& options_;
  LedgerLink& ledger_;
  Inbox inbox_;
  TokenizerPool tokenizers_;
  ReaderPool readers_;
  RankOutput output_;
  LastPassWork last_passes_;

  LedgerRequest request_;  // the next one
  std::chrono::steady_clock::time_point last_exchange_;
  std::chrono::milliseconds exchange_interval_{0}, idle_interval_{1};  // without news
  bool is_all_done_ = false, is_leaving_ = false, may_be_given_tasks_ = true,
       may_be_given_parts_ = false;
  std::map<int64_t, std::exception_ptr> own_errors_;  // by task
};

}  // namespace weft
