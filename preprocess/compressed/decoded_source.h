// Decompression on top of any source of raw bytes, with its limits.
#pragma once

#include <memory>
#include <string>

#include "preprocess/compressed/decompress.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

// 1 TiB: no corpus file of one piece is that large, every decompression bomb wants to be.
constexpr int64_t kDefaultMaxOutputBytes = int64_t{1} << 40;

struct DecodeOptions {
  // A compressed input that gives more is refused with LimitExceeded; plain ones may be larger.
  int64_t max_output_bytes = kDefaultMaxOutputBytes;
  // Compressed inputs are decompressed by a thread of their own, up to 4 MiB ahead.
  bool read_ahead = false;
  DecoderLimits decoder{};
};

// The plain or decompressed bytes of `raw`, by its first bytes. Messages call it `name`. Waits for
// the first bytes.
std::unique_ptr<ByteSource> decode(std::unique_ptr<ByteSource> raw, const std::string& name,
                                   const DecodeOptions& options = {});

// `raw` through `decoder`, within `options`. `first_byte` is where `raw` begins in its file, for
// messages; bytes left over by the decoder, and a stream that is cut off, are std::runtime_error.
std::unique_ptr<ByteSource> decode_with(std::unique_ptr<StreamDecoder> decoder,
                                        std::unique_ptr<ByteSource> raw, const std::string& name,
                                        int64_t first_byte, const DecodeOptions& options);

}  // namespace weft
