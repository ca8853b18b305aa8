// Reads one task: the whole lines that belong to a range of an input.
//
// A range [begin, end) owns what lies between the first line end at or after `begin` and the first
// line end at or after `end`; the first range owns the input's first line as well. So neighbours
// agree without knowing each other, wherever they meet: in a line, between two lines, or between
// "\r" and "\n".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "preprocess/stream/byte_source.h"

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

  // Where in the decompressed range the first owned line starts.
  int64_t first_offset_bytes() const { return first_offset_bytes_; }
  // Decompressed length of the range; valid when read() has returned 0.
  int64_t num_range_bytes() const { return num_range_bytes_; }

 private:
  void skip_to_first_line();
  void read_block();
  size_t read_range(char* data, size_t size_bytes);

  std::unique_ptr<ByteSource> range_, rest_;
  OpenRest open_rest_;
  std::string pending_;  // read, but not handed out yet; only of the range, or only of the rest
  bool is_in_rest_ = false;
  bool has_ended_ = false;  // nothing follows pending_ in the input
  bool is_cut_ = false;     // nothing behind pending_ is owned
  int64_t first_offset_bytes_ = 0, num_range_bytes_ = 0;
  int64_t num_bytes_taken_ = 0;  // of the range, when it is gone
};

}  // namespace weft
