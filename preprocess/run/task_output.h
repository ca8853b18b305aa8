// One task in the hands of a rank: puts its segments in order, and says what may be written where,
// and how much of it is written. Bookkeeping only; one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "preprocess/ledger/ledger_link.h"
#include "preprocess/run/segment.h"

namespace weft {

class OpenTask {
 public:
  // A tokenized segment on its way to the disk.
  struct Piece {
    TokenizedChunk result;
    TaskCounts counts;
    int64_t next_offset_bytes = 0;
    TaskBase place;          // where it goes, or
    int64_t staged_at = -1;  // its offset in the stage file
    int64_t staged_bytes = 0;
    bool is_written = false;
    LongLineGate::Permit long_line_permit;  // held until it is written
  };
  using PiecePtr = std::shared_ptr<Piece>;

  // Goes on where `progress` ends; `writer` is this process in names of stage files.
  OpenTask(const Task& task, TaskProgress progress, size_t num_datasets, int64_t writer);

  const Task& task() const { return task_; }
  // Everything read so far; of the whole task once it is read.
  const TaskCounts& counts() const { return counts_; }
  bool is_read() const { return is_read_; }
  bool has_failed() const { return has_failed_; }
  bool has_base() const { return base_.has_value(); }

  // Takes a segment in any order; the next one in order, until there is none.
  void put(SegmentPtr segment) { arrived_.emplace(segment->idx, std::move(segment)); }
  SegmentPtr take_next();
  // What became of the segments that take_next() gave; takes the segment's result.
  const Piece& add_piece(Segment& segment);
  void end(const Segment& segment);
  void fail() { has_failed_ = true; }

  void set_base(const TaskBase& base);
  void begin_staging() { is_staging_ = true; }
  bool is_staging() const { return is_staging_ && !base_; }

  // The pieces that can be written now, in order: each has its place, or its place in this
  // process's stage file. Each is given once.
  std::vector<PiecePtr> take_writable();
  int64_t num_held_bytes() const { return num_held_bytes_; }  // of pieces not given yet
  // True once when all that was staged is on disk and its place is known: it can be copied there.
  bool take_unstage();
  // All that was staged, by earlier owners of the task and by this one.
  std::vector<StageFile> stage() const;
  TaskBase stage_base() const;  // where the stage's documents go; the base must be known

  void piece_written(Piece& piece);
  void unstaged();

  // What is on its place or in a stage file. It has changed since the last call.
  bool take_changed() { return std::exchange(is_changed_, false); }
  const TaskProgress& written() const { return written_; }
  bool is_done() const { return written_.is_done(); }

 private:
  void advance_written();

  Task task_;
  TaskCounts counts_;
  std::optional<TaskBase> base_;
  std::map<int64_t, SegmentPtr> arrived_;
  int64_t next_idx_ = 0;
  std::deque<PiecePtr> held_;  // not given out
  std::deque<PiecePtr> written_or_underway_;
  std::vector<DatasetCounts> given_;  // counts of all that was given out, to stage or place
  // Of what an earlier run has placed: the stage file goes on behind it.
  std::vector<DatasetCounts> before_stage_;
  const std::vector<StageFile> earlier_stage_;
  const int64_t writer_;
  int64_t num_held_bytes_ = 0;
  int64_t num_staged_bytes_ = 0, num_staging_ = 0;  // in this process's stage file
  bool is_read_ = false, has_failed_ = false, is_staging_ = false, is_changed_ = false;
  enum class Unstage : uint8_t { kNone, kUnderway, kDone } unstage_ = Unstage::kNone;
  TaskProgress written_;
};

// Bytes that a result holds in memory.
int64_t held_bytes(const TokenizedChunk& result);

}  // namespace weft
