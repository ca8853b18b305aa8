// Reads one task: the whole lines that belong to a range of an input.
//
// A range [begin, end) owns what lies between the first line end at or after `begin` and the first
// line end at or after `end`; the first range owns the input's first line as well. So neighbours
// agree without knowing each other, wherever they meet: in a line, between two lines, or between
// "\r" and "\n".
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/line_chunks.h"

namespace weft {

// The bytes of the lines that one range owns, as a stream. Not thread-safe.
class OwnedLines final : public ByteSource {
 public:
  // `range` gives the range's bytes and then ends. `open_rest` is called when a line goes on behind
  // it and gives the input's bytes from the range's end on; empty: the input ends there. Reads to
  // the first owned line. Throws as ByteSource::read.
  using OpenRest = std::function<std::unique_ptr<ByteSource>()>;
  OwnedLines(std::unique_ptr<ByteSource> range, OpenRest open_rest, bool owns_first_line);

  size_t read(char* data, size_t size_bytes) override;
  int64_t num_bytes_taken() const override {
    return range_ ? range_->num_bytes_taken() : num_bytes_taken_;
  }
  std::string format() const override { return format_; }

  // Where in the decompressed range the first owned line starts.
  int64_t first_offset_bytes() const { return first_offset_bytes_; }
  // Decompressed length of the range; valid when read() has returned 0.
  int64_t num_range_bytes() const { return num_range_bytes_; }

 private:
  void skip_to_first_line();
  size_t read_range(char* data, size_t size_bytes);
  size_t read_rest(char* data, size_t size_bytes);
  void enter_rest();
  bool rest_starts_with_newline();
  size_t take_carried(char* data, size_t size_bytes);

  std::unique_ptr<ByteSource> range_, rest_;
  OpenRest open_rest_;
  std::string format_;
  std::vector<char> carried_;  // read, but not given out yet
  bool is_in_rest_ = false, is_at_end_ = false;
  int64_t first_offset_bytes_ = 0, num_range_bytes_ = 0;
  int64_t num_bytes_taken_ = 0;  // of the range, when it is gone
};

}  // namespace weft
