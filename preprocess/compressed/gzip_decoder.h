// gzip by ISA-L's inflate where it was there at build time, two to three times as fast as zlib's,
// else by zlib.
#pragma once

#include <memory>

#include "preprocess/compressed/decompress.h"

namespace weft {

enum class GzipLibrary { kIsal, kZlib };

// What make_decoder("gzip") takes: zlib without ISA-L or with WEFT_GZIP=zlib in the environment.
GzipLibrary default_gzip_library();

// Both check CRC-32 and length of every member, and skip zeros between and after members. kIsal
// gives zlib's where ISA-L was not there at build time.
std::unique_ptr<StreamDecoder> make_gzip_decoder(GzipLibrary library);

}  // namespace weft
