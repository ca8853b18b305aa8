// The output of a rank: where the batches of all its tasks go, and how much of them cannot be lost
// any more.
//
//   batch:  held in memory -> offset known -> written there -> synced -> in the journal
//               '-> spilled -> synced -> in the journal -> offset known -> copied there -> ...
//
// Batches are spilled, to a file of their task, when too many are held whose offset is not known.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/thread_group.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/run_files.h"
#include "preprocess/rank/task_output.h"
#include "preprocess/rank/tokenizer_pool.h"
#include "preprocess/stream/queue.h"

namespace weft {

// All functions are for the thread that empties the inbox. The pool writes, and a thread of its own
// syncs.
class RankOutput {
 public:
  // All references must outlive it, and the pool must have ended before.
  RankOutput(RunFiles& files, size_t num_datasets, TokenizerPool& pool, Inbox& inbox)
      : files_(files), num_datasets_(num_datasets), pool_(pool), inbox_(inbox) {}
  ~RankOutput() { end(); }

  void start();
  void end();  // of the syncing
  // Throws what the syncing has ended by (out of memory, mostly).
  void check() const { sync_thread_.check(); }

  void open(const LedgerReply::Assigned& assigned);
  TaskOutput& at(int64_t task) { return tasks_.at(task); }
  bool is_empty() const { return tasks_.empty(); }

  // Takes the batch of the task's next chunk, and gives the chunk the memory of another one.
  const TaskCounts& add(TaskOutput& task, Chunk& chunk);
  void set_offset(int64_t task, const TaskOffset& offset);
  // Begins to write all that can be written of a task.
  void write(TaskOutput& task);
  // Spills batches whose offset is not known until no more than `max_bytes` are held.
  void spill_above(int64_t max_bytes);
  bool is_writing() const { return num_underway_ > 0; }

  // Makes what is written survive a power cut, if `interval` has passed since the last time, or now
  // with `at_once`.
  void sync_sometimes(std::chrono::milliseconds interval, bool at_once);
  // When all threads have ended: syncs, and says how much of every task is durable; nothing after a
  // sync that failed.
  std::vector<LedgerRequest::Durable> sync_for_the_last_time();

  // Tasks of which more has become durable since the last call.
  std::vector<LedgerRequest::Durable> take_durable() { return std::exchange(durable_, {}); }
  bool has_durable() const { return !durable_.empty(); }

 private:
  void start_write(std::function<void()> work, std::function<void()> then);
  void copy_spill(TaskOutput& task);
  void record_progress(TaskOutput& task);
  void on_synced(const std::vector<LedgerRequest::Durable>& durable);
  void reuse(Batch& tokens);

  RunFiles& files_;
  const size_t num_datasets_;
  TokenizerPool& pool_;
  Inbox& inbox_;
  std::map<int64_t, TaskOutput> tasks_;
  std::vector<Batch> spare_;  // empty, with memory
  int64_t held_bytes_ = 0;
  int num_underway_ = 0;  // writes

  std::set<int64_t> dirty_;  // tasks with progress that was not synced
  std::vector<LedgerRequest::Durable> durable_;
  std::chrono::steady_clock::time_point last_sync_ = std::chrono::steady_clock::now();
  bool is_syncing_ = false, has_sync_failed_ = false;
  Queue<std::vector<LedgerRequest::Durable>> to_sync_;
  ThreadGroup sync_thread_;
};

}  // namespace weft
