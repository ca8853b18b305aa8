// Where the blocks of an xz file begin (The .xz File Format 1.1.0,
// tukaani.org/xz/xz-file-format.txt); xz_decoder.h decodes from there.
#pragma once

#include <cstdint>
#include <vector>

#include "preprocess/compressed/input_layout.h"
#include "preprocess/compressed/xz_decoder.h"
#include "preprocess/stream/random_access_file.h"

namespace weft {

struct XzPart {
  int64_t begin;  // file offset
  int check;      // the blocks' kind of checksum (lzma_check); kXzStreamBegin
};

struct XzParts {
  std::vector<XzPart> parts{{0, kXzStreamBegin}};
  int64_t longest_block_bytes = 0;  // decompressed, as the indexes say; 0: not known
};

// Parts at least `limits.min_part_bytes` apart, the first at 0, found from the file's end through
// each stream's footer and index. One part for a file in which anything does not fit (the decoder
// will say what), which has more than 16,384 streams, or an index that needs over 16 MiB (a million
// blocks).
XzParts xz_parts(const RandomAccess& file, const LayoutLimits& limits);

}  // namespace weft
