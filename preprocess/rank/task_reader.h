// Reads one task of a run, chunk by chunk: lines of text, or rows of a table.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "preprocess/inputs/work_plan.h"
#include "preprocess/rank/chunk.h"
#include "preprocess/rank/rank_options.h"

namespace weft {

// Positions in a task, and its length, are decompressed bytes of lines, or numbers of rows. Not
// thread-safe.
class TaskReader {
 public:
  virtual ~TaskReader() = default;

  // The next whole lines or rows of the task, counted from its begin; false at its end. Throws as
  // ByteSource::read and RowSource::next.
  virtual bool next(Chunk& chunk) = 0;

  // Where the next chunk begins, from the task's begin.
  virtual int64_t next_offset_bytes() const = 0;
  // Taken from the file so far, what was passed over to begin included.
  virtual int64_t num_file_bytes() const = 0;
  // Length of the task, or of its part before a limit; valid when next() has returned false.
  virtual int64_t num_range_bytes() const = 0;
};

// What a run reads of tables.
RowRequest rows_wanted(const RankOptions& options);

// Begins at `next_offset_bytes` behind the task's begin, 0 or where a chunk ended. Throws as
// Input::open. What it is given must outlive the reader.
std::unique_ptr<TaskReader> open_task(const Input& input, const Task& task,
                                      int64_t next_offset_bytes, const RankOptions& options,
                                      const DecodeOptions& decode_options,
                                      const std::atomic<bool>& cancelled);

}  // namespace weft
