// Where the frames of a zstd file begin, without decompressing (RFC 8878, section 3.1).
#pragma once

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/compressed/input_parts.h"

namespace weft {

// Fills in the parts of a zstd file: frames at least `limits.min_part_bytes` apart. Skippable
// frames belong to the part before. Three ways, in this order:
//  - the seek table of the seekable format (zstd contrib/seekable_format), if its sizes add up to
//    the file's and a frame's magic number stands where each part would begin;
//  - pzstd's hints (a skippable frame with the next frame's size), each if a magic number or the
//    file's end stands where it points;
//  - the block headers of every frame, one hop for at most 128 KiB of text.
// The search ends, and the rest is one part, at the first thing that does not fit, at a frame of
// more than `limits.max_blocks_per_frame` blocks, or after `limits.max_reads` reads.
// Throws as InputFile.
void find_zstd_parts(const InputFile& file, const LayoutLimits& limits, InputLayout& layout);

}  // namespace weft
