// Reads one task of a run, chunk by chunk.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "preprocess/ledger/work_plan.h"
#include "preprocess/rank/rank_options.h"
#include "preprocess/stream/line_chunks.h"
#include "preprocess/stream/owned_lines.h"

namespace weft {

// Not thread-safe. What it is given must outlive it.
class TaskReader {
 public:
  // Begins at `next_offset_bytes` behind the task's begin (decompressed), 0 or where a chunk
  // ended. Throws as open_input_range and ByteSource::read. Where a window is needed that `windows`
  // does not give without a claim, this or next() waits for one and decodes the task again up to
  // where it was.
  TaskReader(const WorkPlan& plan, const Task& task, int64_t next_offset_bytes,
             const RankOptions& options, LongLineGate& gate, WindowBudget& windows,
             const std::atomic<bool>& cancelled);

  // The next whole lines of the task, offset_bytes counted from its begin; false at its end.
  bool next(LineChunk& chunk);

  // Where the next chunk begins, from the task's begin.
  int64_t next_offset_bytes() const { return chunker_->offset_bytes(); }
  // Taken from the file so far, what was passed over to begin included.
  int64_t num_file_bytes() const { return std::max(num_file_bytes_, lines_->num_bytes_taken()); }
  // Decompressed length of the task; valid when next() has returned false.
  int64_t num_range_bytes() const { return skipped_bytes_ + lines_->num_range_bytes(); }

 private:
  void open(int64_t next_offset_bytes);
  void open_with_window(int64_t next_offset_bytes, std::optional<int64_t> window_bytes);

  const WorkPlan& plan_;
  const Task task_;
  const RankOptions& options_;
  LongLineGate& gate_;
  const std::atomic<bool>& cancelled_;
  WindowBudget::Claim window_;
  std::unique_ptr<OwnedLines> lines_;
  std::unique_ptr<LineChunker> chunker_;
  int64_t skipped_bytes_ = 0;   // of a plain file's range, not read again
  int64_t num_file_bytes_ = 0;  // when it was opened again
};

}  // namespace weft
