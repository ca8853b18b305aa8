// Reads one task of a run, chunk by chunk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/rank/rank_options.h"
#include "preprocess/stream/line_chunks.h"
#include "preprocess/stream/owned_lines.h"

namespace weft {

// Not thread-safe. What it is given must outlive it.
class TaskReader {
 public:
  // Begins at `next_offset_bytes` behind the task's begin (decompressed), 0 or where a chunk
  // ended. Throws as Input::open and ByteSource::read.
  TaskReader(const Input& input, const Task& task, int64_t next_offset_bytes,
             const RankOptions& options, const DecodeOptions& decode_options,
             const std::atomic<bool>& cancelled);

  // The next whole lines of the task, offset_bytes counted from its begin; false at its end.
  bool next(LineChunk& chunk) { return chunker_->next(chunk); }

  // Where the next chunk begins, from the task's begin.
  int64_t next_offset_bytes() const { return chunker_->offset_bytes(); }
  // Taken from the file so far, what was passed over to begin included.
  int64_t num_file_bytes() const { return lines_->num_bytes_taken(); }
  // Decompressed length of the task, or of its part before a limit; valid when next() has returned
  // false.
  int64_t num_range_bytes() const { return skipped_bytes_ + lines_->num_range_bytes(); }

 private:
  int64_t skipped_bytes_ = 0;  // of a plain file's range, not read again
  std::optional<OwnedLines> lines_;
  std::unique_ptr<ByteSource> first_bytes_;  // of lines_, in a task with a limit
  std::optional<LineChunker> chunker_;
};

}  // namespace weft
