// gzip by ISA-L's inflate where it was there at build time, two to three times as fast as zlib's,
// else, or with WEFT_GZIP=zlib in the environment, by zlib.
#pragma once

#include <memory>

#include "preprocess/compressed/stream_decoder.h"

namespace weft {

// Checks CRC-32 and length of every member, and skips zeros between and after members.
std::unique_ptr<StreamDecoder> make_gzip_decoder();

}  // namespace weft
