// Where the frames of a zstd file begin, without decompressing (RFC 8878, section 3.1).
#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/compressed/input_layout.h"
#include "preprocess/stream/random_access_file.h"

namespace weft {

// Offsets of frames, ascending, at least `limits.min_part_bytes` apart; the first is 0. Skippable
// frames belong to the part before. Three ways, in this order:
//  - the seek table of the seekable format (zstd contrib/seekable_format), if its sizes add up to
//    the file's and a frame's magic number stands where each part would begin;
//  - pzstd's hints (a skippable frame with the next frame's size), each if a magic number or the
//    file's end stands where it points;
//  - the block headers of every frame, one hop for at most 128 KiB of text.
// The search ends, and the rest is one part, at the first thing that does not fit, at a frame of
// more than `limits.max_blocks_per_frame` blocks, or after `limits.max_reads` reads.
std::vector<int64_t> zstd_part_begins(const RandomAccess& file, const LayoutLimits& limits);

}  // namespace weft
