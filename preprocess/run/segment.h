// What travels between the threads of a rank: a piece of a task and what became of it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

// Errors travel in it too, so that they are met in input order.
struct Segment {
  int64_t task = 0;
  int64_t idx = 0;  // in the task, from 0 where this rank began
  LineChunk chunk;
  TokenizedChunk result;
  std::exception_ptr error;
  int64_t next_offset_bytes = 0;  // from the task's begin: where the next segment begins
  int64_t num_file_bytes = 0;     // taken from the file for this segment
  bool ends_task = false;         // no text: the task is read to its end
  int64_t num_range_bytes = 0;    // with ends_task: the decompressed length of the task
};
using SegmentPtr = std::unique_ptr<Segment>;

}  // namespace weft
