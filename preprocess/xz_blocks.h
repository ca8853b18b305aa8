// Where the blocks of an xz file begin, and how to decode from there (The .xz File Format 1.1.0,
// tukaani.org/xz/xz-file-format.txt).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "preprocess/decompress.h"
#include "preprocess/input_layout.h"
#include "preprocess/random_access_file.h"

namespace weft {

struct XzPart {
  int64_t begin;  // file offset
  int check;      // the blocks' kind of checksum (lzma_check); -1: a stream begins here
};

// Parts at least `limits.min_part_bytes` apart, the first at 0, found from the file's end through
// each stream's footer and index. One part for a file in which anything does not fit (the decoder
// will say what), which has more than 16,384 streams, or an index that needs over 64 MiB (4 million
// blocks).
std::vector<XzPart> xz_parts(const RandomAccess& file, const LayoutLimits& limits);

// A decoder for the bytes from one part's begin to another's. `end_check` is the latter's check, -1
// for the end of the file. Blocks are verified by their checksums, indexes by theirs and, where the
// part holds the whole stream, against the blocks.
std::unique_ptr<StreamDecoder> xz_part_decoder(int begin_check, int end_check);

}  // namespace weft
