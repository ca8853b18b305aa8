// From tasks to chunks: each thread of the pool reads one task at a time.
//
// A fixed number of chunks is in use. A reader that finds none free waits until one is recycled, so
// that reading does not run ahead of tokenizing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "indexed_dataset/base/process/thread_group.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/chunk.h"
#include "preprocess/rank/task_reader.h"
#include "preprocess/stream/queue.h"

namespace weft {

// All functions are for one thread, the one that keeps the books of the rank.
class ReaderPool {
 public:
  // The pool's threads call `use` with every chunk of text, and with the one that ends a task. All
  // references must outlive the pool and its chunks.
  ReaderPool(const WorkPlan& plan, const RankOptions& options, std::function<void(ChunkPtr)> use);
  ~ReaderPool() { end(); }

  void start();
  // Ends all reading. Chunks that were read and not used may be lost.
  void end();
  // Throws what a thread has ended by (out of memory, mostly).
  void check() const { threads_.check(); }

  // Reads a task from where `assigned` says. is_last() is true of one of its chunks.
  void read(const LedgerReply::Assigned& assigned);
  // The last chunk of a task has come.
  void task_ended() { --num_reading_; }
  // The chunk can be filled again.
  void recycle(ChunkPtr chunk);

  int64_t num_reading() const { return num_reading_; }
  int64_t num_idle() const { return std::max<int64_t>(0, num_readers_ - num_reading_); }

 private:
  struct TaskToRead {
    Task task;
    int64_t next_offset_bytes = 0;
    int64_t num_file_bytes = 0;  // of the task, taken by the run that read the part before
  };
  void read_task(const TaskToRead& assigned);

  const WorkPlan& plan_;
  const RankOptions& options_;
  const DecodeOptions decode_options_;
  const int num_readers_;
  const std::function<void(ChunkPtr)> use_;
  std::atomic<bool> is_cancelled_{false};
  int64_t num_reading_ = 0;  // tasks
  Queue<ChunkPtr> free_;
  Queue<TaskToRead> tasks_;
  ThreadGroup threads_;
};

}  // namespace weft
