// Where the decoding of an input may begin, so that several threads or nodes can share one file.
//
//   plain files       anywhere (the caller looks for line ends)
//   zstd              at frames: by the seek table of the seekable format, else by hopping over
//                     block headers (zstd_frames.h)
//   xz                at blocks and streams, by the indexes at the streams' ends (xz_blocks.h)
//   gzip, bzip2       at the start only: nothing tells where a member begins
//   pipes, devices    at the start only
//
// A layout is a promise about where, not about what: a file whose tables lie gives an error when it
// is decoded, or is decoded from its start, but never other bytes than a whole read of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/stream/random_access_file.h"

namespace weft {

struct InputLayout {
  std::string format;  // of its content: "plain", "gzip", "xz", "zstd", "bzip2"; "stream": a pipe
  int64_t file_bytes = 0;  // -1 for a pipe
  bool cut_anywhere = false;
  // File offsets at which decoding can begin, ascending, [0] = 0.
  std::vector<int64_t> part_begins{0};
  // xz with several parts only, one for each: the kind of checksum of the blocks, which only the
  // stream's first part names; -1 where a part begins with a stream.
  std::vector<int8_t> xz_checks;
  int64_t xz_longest_block_bytes = 0;  // decompressed; 0: not known
};

// Bounds of the work and of the number of parts.
struct LayoutLimits {
  // Smaller frames and blocks are gathered: below, opening a part costs as much as decoding it.
  int64_t min_part_bytes = 256 << 10;
  // Larger files have larger parts.
  int64_t max_parts = 16384;
  // Reads of a few kB while hopping: 20 s on a file system that answers in 0.3 ms. What lies behind
  // is one part. A count and no time, for the layout must be the same on every node and every run.
  int64_t max_reads = 65536;
  // A zstd frame of more blocks (1 GiB of text) ends the search: such a file has few frames or one.
  int64_t max_blocks_per_frame = 8192;
};

// Looks at the file's first bytes, tables and headers; decodes nothing. A damaged file has a layout
// too, the damage is found by decoding. Throws std::system_error if the file cannot be read.
InputLayout input_layout(const std::string& path, const LayoutLimits& limits = {});

// The plain or decoded bytes of the file range [begin, end): both are part begins or the file's
// size, or anything for plain files; a pipe is read whole whatever they are. The ranges of
// consecutive parts give, one after another, the bytes of the whole file. Checksums are verified;
// damage, a file that has changed its size, and a stream that goes on behind `end` are
// std::runtime_error with file and byte offset. With `options.read_ahead`, only a file that cannot
// be cut gets a thread: parts are meant to be decoded by the threads that use them.
std::unique_ptr<ByteSource> open_input_range(const std::string& path, const InputLayout& layout,
                                             int64_t begin, int64_t end,
                                             const std::atomic<bool>& cancelled,
                                             DecodeOptions options = {.read_ahead = true});

}  // namespace weft
