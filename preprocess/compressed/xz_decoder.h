// xz by liblzma's own decoder of streams; with several threads, blocks are decoded side by side.
#pragma once

#include <memory>

#include "preprocess/compressed/stream_decoder.h"

namespace weft {

// Where the headers of blocks tell their sizes, as those of `xz -T` do, as many of them are decoded
// at a time as `limits` have threads and memory for. A file without such sizes, or of one block,
// is decoded by one thread.
std::unique_ptr<StreamDecoder> make_xz_decoder(const DecoderLimits& limits);

}  // namespace weft
