// One task in the hands of a rank: puts its chunks in order, and says what may be written where,
// and how much of it is written. Bookkeeping only; one thread at a time.
//
//   chunk:  put, in any order -> take_next, in order -> add: its batch is held
//   batch:  held -> take_writable (its offset is known, or it is spilled) -> underway -> batch_written
//
// Progress is what is written without a gap: batches that end before earlier ones wait for these.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/chunk.h"
#include "preprocess/rank/task_spill.h"

namespace weft {

class TaskOutput {
 public:
  // A tokenized chunk on its way to the disk.
  struct HeldBatch {
    Batch tokens;
    TaskCounts counts;
    int64_t next_offset_bytes = 0;
    TaskOffset offset;  // from the task's begin, until take_writable() knows the task's offset
    int64_t spilled_at = -1;  // its offset in the spill file; < 0: it is written at its own
    int64_t spilled_bytes = 0;
    bool is_written = false;

    int64_t held_bytes() const;  // in memory
  };
  using BatchPtr = std::shared_ptr<HeldBatch>;

  // Goes on where `progress` ends; `process_id` is that of RunFiles.
  TaskOutput(const Task& task, TaskProgress progress, size_t num_datasets, int64_t process_id);

  const Task& task() const { return task_; }
  // Everything read so far; of the whole task once it is read.
  const TaskCounts& counts() const { return counts_; }
  bool is_read() const { return is_read_; }
  bool has_failed() const { return has_failed_; }
  bool has_offset() const { return offset_.has_value(); }

  // Takes a chunk in any order; the next one in order, until there is none.
  void put(ChunkPtr chunk) { arrived_.emplace(chunk->idx, std::move(chunk)); }
  ChunkPtr take_next();
  // Adds the batch of the chunk that take_next() gave, and takes it out of the chunk.
  const HeldBatch& add(Chunk& chunk);
  void end(const Chunk& chunk);
  void fail() { has_failed_ = true; }

  void set_offset(const TaskOffset& offset);
  void begin_spilling() { is_spilling_ = true; }
  bool is_spilling() const { return is_spilling_ && !offset_; }

  // The batches that can be written now, in order: each with its offset in the output, or in this
  // process's spill file. Each is given once.
  std::vector<BatchPtr> take_writable();
  int64_t num_held_bytes() const { return num_held_bytes_; }  // of batches not given yet
  // True once when all that was spilled is on disk and the offset is known: it can be copied there.
  bool take_unspill();
  // All that was spilled, by earlier owners of the task and by this one.
  std::vector<SpillFile> spill() const { return spill_.files(); }
  TaskOffset spill_offset() const;  // where the spill's documents go; the offset must be known
  // The spill files that written() does not need any more, each once.
  std::vector<SpillFile> take_copied_spill() { return std::exchange(copied_spill_, {}); }

  void batch_written(HeldBatch& batch);
  void unspilled();

  // written() says how much is in the output or in a spill file; true if that has changed since the
  // last call.
  bool take_changed() { return std::exchange(is_changed_, false); }
  const TaskProgress& written() const { return written_; }
  bool is_done() const { return written_.is_done(); }

 private:
  void advance_written();

  Task task_;
  TaskCounts counts_;
  std::optional<TaskOffset> offset_;
  std::map<int64_t, ChunkPtr> arrived_;
  int64_t next_idx_ = 0;
  std::deque<BatchPtr> held_;  // not given out
  std::deque<BatchPtr> written_or_underway_;
  TaskSpill spill_;
  int64_t num_held_bytes_ = 0;
  bool is_read_ = false, has_failed_ = false, is_spilling_ = false, is_changed_ = false;
  std::vector<SpillFile> copied_spill_;
  TaskProgress written_;
};

}  // namespace weft
