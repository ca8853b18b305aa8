// Cuts a stream of bytes into chunks of whole lines, the unit of work of the pipeline; or of whole
// texts, which end at blank lines or with the stream.
//
// Line ends are Python's universal newlines: "\n", "\r\n" and a lone "\r" (Megatron-LM opens its
// input in text mode). A raw "\r" cannot be inside a valid JSON string, so cutting there never
// splits a document.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "preprocess/stream/byte_source.h"

namespace weft {

// Chunks may end behind any line, behind a blank one (nothing but a line end), or only where the
// stream does.
enum class SplitAt : uint8_t { kLine, kBlankLine, kNowhere };

// Whole lines, their ends included; only the last line of a stream may lack one.
struct LineChunk {
  std::vector<char> buffer;
  size_t size_bytes = 0;     // of the text
  int64_t offset_bytes = 0;  // of the first byte, in the decompressed stream
  // This chunk stands for one line, or text, that is longer than the limit: it holds no text,
  // `size_bytes` is 0.
  bool is_too_long_line = false;
  int64_t too_long_line_bytes = 0;  // with its end

  // Length of the lines, also of one that is too long to be held.
  int64_t num_bytes() const {
    return static_cast<int64_t>(size_bytes) + (is_too_long_line ? too_long_line_bytes : 0);
  }
  std::string_view text() const { return {buffer.data(), size_bytes}; }
};

// Reads one stream chunk by chunk. Not thread-safe. Where a chunk ends depends on the text behind
// its begin alone: a run that goes on at a chunk's begin makes the same chunks. Each begins with
// the stream, or where the one before was cut; "line" in this class means what lies between cuts.
class LineChunker {
 public:
  // Chunks hold `chunk_bytes`, and more where a longer line, of up to `max_line_bytes`, needs it.
  // `offset_bytes` is where in the stream the source begins.
  LineChunker(ByteSource& source, size_t chunk_bytes, size_t max_line_bytes,
              int64_t offset_bytes = 0, SplitAt split_at = SplitAt::kLine)
      : source_(source),
        chunk_bytes_(chunk_bytes),
        max_held_bytes_(max_line_bytes + kMostBehindLine),
        split_at_(split_at),
        offset_bytes_(offset_bytes) {}

  // Passes over a UTF-8 byte order mark with which the stream begins; nothing behind its begin.
  void pass_byte_order_mark();

  // Fills `chunk`, whose buffer is reused; false at the end of the stream. Throws as
  // ByteSource::read.
  bool next(LineChunk& chunk);

  // Where in the stream the next chunk begins.
  int64_t offset_bytes() const { return offset_bytes_; }

 private:
  // Bytes that may stand behind a text of the longest length where no cut is seen yet: the end of
  // its last line, and a "\r" whose "\n" may come next.
  static constexpr size_t kMostBehindLine = 2 + 1;

  void read_some(LineChunk& chunk, size_t target_bytes);
  void finish_chunk(LineChunk& chunk, size_t cut);
  void skip_rest_of_line(LineChunk& chunk);

  ByteSource& source_;
  size_t chunk_bytes_, max_held_bytes_;
  SplitAt split_at_;
  std::vector<char> carried_;  // read, but no part of a chunk yet
  size_t num_taken_ = 0;       // of `carried_`, by the chunk that is being made
  int64_t offset_bytes_;
  bool source_has_ended_ = false;
  bool at_end_ = false;  // the chunk ends where the stream does
};

// One past the first line end in `text`, whose end is the stream's if `at_end` (then it ends a
// line, too). 0 if the line goes on, or ends with a "\r" whose "\n" may come next.
size_t end_of_first_line(std::string_view text, bool at_end);

// One past the first blank line in `text`, which begins with a line; likewise.
size_t end_of_first_blank_line(std::string_view text, bool at_end);

// Walks over the lines of a text whose lines are whole.
class LineWalker {
 public:
  explicit LineWalker(std::string_view text);
  // The next line without its end; false after the last one.
  bool next(std::string_view& line);

 private:
  const char* position_;
  const char* end_;
  const char* next_carriage_return_;  // not before position_; end_ if there is none
};

}  // namespace weft
