// A decoder of xz files, or of parts of them (The .xz File Format 1.1.0,
// tukaani.org/xz/xz-file-format.txt): the frame is ours, blocks and indexes are liblzma's.
#pragma once

#include <cstdint>
#include <memory>

#include "preprocess/compressed/stream_decoder.h"

namespace weft {

// In place of a kind of checksum: a stream begins here, or the file ends here.
constexpr int kXzStreamBegin = -1, kXzFileEnd = -1;

// Memory for an index while it is decoded, beside the window; about a million blocks.
constexpr uint64_t kXzIndexMemoryBytes = uint64_t{16} << 20;

// A decoder for the bytes from one part's begin to another's (xz_blocks.h); `begin_check` and
// `end_check` are the kinds of checksum there. Blocks are verified by their checksums, indexes by
// theirs and, where the part holds the whole stream, against the blocks.
std::unique_ptr<StreamDecoder> xz_part_decoder(int begin_check, int end_check,
                                               const WindowLimits& window = {});

}  // namespace weft
