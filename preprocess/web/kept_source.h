// Keeps on disk what is fetched of a stream that cannot be cut, while it is read: a run that was
// killed has such a stream decoded again from its start, and then reads from the disk what it has,
// and fetches only the rest.
//
//   file  := block*
//   block := XXH3-64 of the bytes, seeded with the stream and the block's index: u64; 1 MiB of the
//            stream
//
// Blocks are believed by their hashes only, so nothing is synced: what a power cut or another rank
// that writes the same leaves is right, or is fetched again. A stream's end, below 1 MiB, always
// is. A rank of an earlier run that wakes up may write blocks of what the address gave then:
// another stream.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "preprocess/stream/byte_source.h"

namespace weft {

inline constexpr int64_t kKeptBlockBytes = int64_t{1} << 20;

// `open` gives the stream from an offset on; it is called when the file has no more.
using OpenStreamAt = std::function<std::unique_ptr<ByteSource>(int64_t offset_bytes)>;

// The stream from its start; `stream` tells it from all others. read() throws what `open` and its
// sources throw; std::system_error if the file cannot be written. One that cannot be read counts as
// not there.
std::unique_ptr<ByteSource> open_kept_source(const std::filesystem::path& file,
                                             const std::string& stream, OpenStreamAt open);

// Where the bytes of task `number` are kept.
std::filesystem::path kept_path(const std::filesystem::path& work_folder, int64_t number);

}  // namespace weft
