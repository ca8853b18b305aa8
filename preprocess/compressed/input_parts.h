// The parts of an input, that is where its decoding may begin, and the limits of the search for
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct InputLayout {
  // Of its content: "plain", "gzip", "xz", "zstd", "bzip2", "parquet", "arrow"; "stream": a pipe.
  std::string format;
  int64_t file_bytes = 0;  // -1 for a pipe
  bool cut_anywhere = false;
  bool is_one_task = false;  // is read from front to back all the same: a URL
  bool has_rows = false;     // a table: Input::open_rows() reads it, and positions in it are rows
  // File offsets at which decoding can begin, ascending, [0] = 0.
  std::vector<int64_t> part_begins{0};

  bool is_compressed() const { return format != "plain" && format != "stream"; }
};

// Bounds of the work and of the number of parts.
struct LayoutLimits {
  // Smaller frames are gathered: below, opening a part costs as much as decoding it.
  int64_t min_part_bytes = 256 << 10;
  // Larger files have larger parts.
  int64_t max_parts = 16384;
  // Reads of a few kB while hopping: 20 s on a file system that answers in 0.3 ms. What lies behind
  // is one part. A count and no time, for the layout must be the same on every node and every run.
  int64_t max_reads = 65536;
  // A zstd frame of more blocks (1 GiB of text) ends the search: such a file has few frames or one.
  int64_t max_blocks_per_frame = 8192;

  // The least distance between the parts of a file of this size.
  int64_t part_distance_bytes(int64_t file_bytes) const {
    return std::max<int64_t>({min_part_bytes, file_bytes / max_parts, 1});
  }
};

}  // namespace weft
