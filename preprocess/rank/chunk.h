// A chunk on its way through the threads of a rank: whole lines, or rows, of one task, and the
// batch of tokens that they become.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "preprocess/columnar/row_chunk.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

// Errors travel in it too, so that they are met in the order of the input.
struct Chunk {
  int64_t task = 0;
  int32_t input_idx = 0;
  int64_t idx = 0;  // in the task, from 0 where this rank began
  LineChunk lines;
  RowChunk rows;  // of a table; it has none, or `lines` is empty
  Batch batch;
  std::vector<WrittenChecksums> written;  // of the batch, one per key
  std::exception_ptr error;
  int64_t next_offset_bytes = 0;  // from the task's begin: where the next chunk begins
  int64_t num_file_bytes = 0;     // taken from the file for this chunk
  bool ends_task = false;         // it has no text: the task is read to its end
  int64_t num_range_bytes = 0;    // with ends_task: the decompressed length of the task

  bool has_text() const { return lines.size_bytes > 0 || !rows.values.empty(); }
  // No chunk of this task comes behind it.
  bool is_last() const { return ends_task || (error && !has_text()); }
  // Forgets the text and keeps its memory.
  void clear_text() {
    lines.size_bytes = 0;
    lines.is_too_long_line = false;
    rows.clear();
  }
};
// One thread has it at a time. It is shared so that the jobs and messages that it travels in can be
// copied, as std::function wants.
using ChunkPtr = std::shared_ptr<Chunk>;

}  // namespace weft
