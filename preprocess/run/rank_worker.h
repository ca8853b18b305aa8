// The work of one rank of a run: takes tasks from the ledger, reads, tokenizes and writes them.
//
//   readers (one task each) -> workers (tokenize) -> coordinator (order, places) -> workers (write)
//
// The coordinator is the thread that calls run(); it alone keeps the books and speaks with the
// ledger. A fixed set of segments travels from readers to workers and back; results wait in memory
// for their places, up to a limit, then in stage files.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "preprocess/compressed/window_budget.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/ledger/work_plan.h"
#include "preprocess/run/queue.h"
#include "preprocess/run/run_files.h"
#include "preprocess/run/task_output.h"
#include "preprocess/run/task_reader.h"

namespace weft {

struct RankSettings {
  TokenizeRules rules;
  ReadLimits read_limits;
  int num_workers = 1;
  // A line whose chunk must be larger waits until no other such line is in work.
  size_t long_line_bytes = size_t{16} << 20;
  WindowSizes windows;  // of what is decompressed at a time
  std::function<void(int64_t claim_bytes)> on_first_window_wait;  // from any thread
  // Of results without a place, then they are staged. Windows over kDefaultMaxBytes take from it.
  int64_t max_held_bytes = int64_t{64} << 20;
  std::chrono::milliseconds sync_interval{1000};
};

class RankWorker {
 public:
  // All references must outlive it.
  RankWorker(const RankSettings& settings, const WorkPlan& plan,
             std::shared_ptr<const Vocabulary> vocabulary, RunFiles& files, LedgerLink& ledger);
  ~RankWorker();

  // Works until the ledger says that all is done. `stop_requested` is asked, and `on_round` called,
  // at least ten times a second. Throws RankStopped; what failed here, if that is why the run
  // fails, RunFailed otherwise; what LedgerLink::exchange throws.
  void run(const std::function<bool()>& stop_requested, const std::function<void()>& on_round);

 private:
  struct PieceWritten {
    int64_t task = 0;
    OpenTask::PiecePtr piece;
  };
  struct Unstaged {
    int64_t task = 0;
  };
  struct Synced {
    std::vector<LedgerRequest::Durable> durable;
  };
  struct WriteFailed {
    std::exception_ptr error;
    bool is_sync = false;
  };
  using Event = std::variant<SegmentPtr, PieceWritten, Unstaged, Synced, WriteFailed>;
  struct Given {
    Task task;
    int64_t next_offset_bytes = 0;
    int64_t num_file_bytes = 0;  // of the task, taken by whoever read the part before
    std::shared_ptr<std::atomic<bool>> is_unwanted;
  };

  // threads
  void start_threads();
  void end_threads();
  void work();
  void read_tasks();
  void read_task(const Given& given);
  void sync_files();

  // the coordinator
  void round(const std::function<bool()>& stop_requested);
  void handle(Event& event);
  void on_segment(SegmentPtr segment);
  void accept(OpenTask& task, Segment& segment);
  void fail_task(OpenTask& task, RunFailure failure);
  void dispatch(OpenTask& task);
  void stage_if_too_much_is_held();
  int64_t max_held_bytes() const;
  void start_sync();
  void on_synced(const Synced& synced);
  void exchange();
  bool has_news() const;
  void open_task(const LedgerReply::Given& given);
  void remove_stages(int64_t journaled_request);
  void leave(int exit_code, const std::string& message);
  void settle();
  [[noreturn]] void throw_failure(const RunFailure& failure);
  void recycle(SegmentPtr segment);
  void keep_for_reuse(TokenizedChunk& result);

  const RankSettings& settings_;
  const WorkPlan& plan_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  RunFiles& files_;
  LedgerLink& ledger_;
  const int num_readers_;

  std::atomic<bool> is_cancelled_{false};
  LongLineGate gate_;
  WindowBudget windows_;
  // Jobs get the worker's own tokenizer and must not throw. Writing is urgent: what is written frees
  // memory, and others may wait for it.
  Queue<std::function<void(ChunkTokenizer&)>> work_;
  Queue<SegmentPtr> free_;
  Queue<Given> given_;
  Queue<Event> events_;
  Queue<std::vector<LedgerRequest::Durable>> to_sync_;
  std::vector<std::thread> threads_;

  std::map<int64_t, OpenTask> open_;
  std::map<int64_t, std::shared_ptr<std::atomic<bool>>> is_unwanted_;
  std::set<int64_t> reading_;  // tasks whose reader has not come to an end
  std::set<int64_t> dirty_;    // tasks with progress that was not synced
  // By task: its stage files go when this request is in the journal.
  std::map<int64_t, std::pair<int64_t, std::vector<StageFile>>> stages_to_remove_;
  std::vector<TokenizedChunk> spare_results_;
  int64_t held_bytes_ = 0;
  int num_underway_ = 0;  // writes
  bool is_syncing_ = false, has_sync_failed_ = false, is_all_done_ = false,
       may_be_given_tasks_ = true;
  std::chrono::steady_clock::time_point last_sync_, last_exchange_;
  LedgerRequest request_;                                 // the next one
  std::map<std::string, std::exception_ptr> own_errors_;  // by message
};

}  // namespace weft
