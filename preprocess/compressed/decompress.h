// Finds the decoder for a file: gzip, xz, zstd or bzip2, each a thin cover over its library. Every
// format may hold several members, streams or frames one after another, as `cat a.gz b.gz` makes
// them.
#pragma once

#include <memory>
#include <string_view>

#include "preprocess/compressed/stream_decoder.h"

namespace weft {

// How many first bytes of a file decoder_for() wants to see.
constexpr size_t kNumMagicBytes = 10;

// The decoder for a file that starts with `first_bytes`; null for plain text.
std::unique_ptr<StreamDecoder> decoder_for(std::string_view first_bytes,
                                           const DecoderLimits& limits = {});
// By the names that format() gives.
std::unique_ptr<StreamDecoder> make_decoder(std::string_view format,
                                            const DecoderLimits& limits = {});

}  // namespace weft
