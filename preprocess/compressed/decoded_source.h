// Decompression on top of any source of raw bytes, with its limits.
#pragma once

#include <memory>
#include <string>

#include "preprocess/compressed/decompress.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

// `raw` through `decoder`, within `options`. `first_byte` is where `raw` begins in its file, for
// messages; bytes left over by the decoder, and a stream that is cut off, are std::runtime_error.
std::unique_ptr<ByteSource> decode_with(std::unique_ptr<StreamDecoder> decoder,
                                        std::unique_ptr<ByteSource> raw, const std::string& name,
                                        int64_t first_byte, const DecodeOptions& options);

}  // namespace weft
