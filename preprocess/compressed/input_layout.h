// Where the decoding of an input may begin, so that several threads or nodes can share one file.
//
//   plain files       anywhere (the caller looks for line ends)
//   zstd              at frames: by the seek table of the seekable format, else by hopping over
//                     block headers (zstd_frames.h)
//   gzip, bzip2, xz   at the start only (xz decodes its blocks side by side itself)
//
// A layout is a promise about where, not about what: a file whose tables lie gives an error when it
// is decoded, or is decoded from its start, but never other bytes than a whole read of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/compressed/input_parts.h"

namespace weft {

// Looks at the file's first bytes, tables and headers; decodes nothing. A damaged file has a layout
// too, the damage is found by decoding. Throws std::system_error if the file cannot be read.
InputLayout input_layout(const std::string& path, const LayoutLimits& limits = {});

// The plain or decoded bytes of the file range [begin, end): both are part begins or the file's
// size, or anything for plain files. The ranges of consecutive parts give, one after another, the
// bytes of the whole file. Checksums are verified;
// damage, a file that has changed its size, and a stream that goes on behind `end` are
// std::runtime_error with file and byte offset. With `options.read_ahead`, only a file that cannot
// be cut gets a thread: parts are meant to be decoded by the threads that use them.
std::unique_ptr<ByteSource> open_input_range(const std::string& path, const InputLayout& layout,
                                             int64_t begin, int64_t end,
                                             const std::atomic<bool>& cancelled,
                                             DecodeOptions options = {.read_ahead = true});

}  // namespace weft
