// PREFIX.checksums: the XXH3-64 of every 16 MiB of a dataset's files, so that damage is found
// later, and where. A text file:
//
//   weft-checksums 1
//   xxh3-64 16777216
//   file .bin 33554433 bytes      for each file covered: its suffix and size, then its blocks
//   06a05fe3b2d5f9c1              16 hex digits a block, the last one may be short
//   9d4e1e0b51a2cc0a
//   c77b3abb6f87acd9
//   file .idx 62 bytes
//   ...
//   end 2d06800538d394c2          XXH3-64 of all bytes before this line
//
// Files are named by suffix, so that a renamed or copied dataset keeps its checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

class InputFile;

// 16 MiB: a block is a few milliseconds of reading, damage is narrowed down to thousands of
// documents, and 10 TB make 11 MB of checksums.
inline constexpr int64_t kChecksumBlockBytes = int64_t{16} << 20;

struct FileChecksums {
  std::string suffix;  // ".bin"
  int64_t size_bytes = 0;
  std::vector<uint64_t> blocks;

  bool operator==(const FileChecksums&) const = default;
};

// A file of a dataset, which may lie under another name (".bin" in "x.bin.part").
struct DatasetFile {
  std::string suffix;
  std::filesystem::path path;
};

// Sees every byte that is hashed, from several threads: pieces of at most 256 KiB, which begin at
// multiples of that.
using SeePiece =
    std::function<void(size_t file_idx, int64_t offset_bytes, std::span<const std::byte> bytes)>;

// The checksums of `files`, each read once, in parallel over blocks. Memory: 256 KiB a thread.
// Throws std::system_error if a file cannot be read, std::runtime_error if one shrinks meanwhile.
std::vector<FileChecksums> compute_block_checksums(std::span<const DatasetFile> files,
                                                   int num_threads, const SeePiece& see = {});
// Computes that of one block of a file; `see` is as above.
uint64_t compute_block_checksum(
    const InputFile& file, int64_t begin_bytes, int64_t end_bytes,
    const std::function<void(int64_t offset_bytes, std::span<const std::byte> bytes)>& see);
// Computes those of bytes in memory.
FileChecksums compute_block_checksums(std::string suffix, std::span<const std::byte> bytes);

// Computes and writes `path`, a name that no program takes for complete yet (x.checksums.part).
// An exception of `see` ends it.
void write_block_checksums(const std::filesystem::path& path, std::span<const DatasetFile> files,
                           int num_threads, const SeePiece& see = {});
void write_block_checksums(const std::filesystem::path& path,
                           std::span<const FileChecksums> checksums);

// Reads such a file; returns nothing if it is not there. Throws ChecksumMismatch if it is damaged
// (its last line does not fit), std::runtime_error if it is of another format.
std::optional<std::vector<FileChecksums>> read_block_checksums(const std::filesystem::path& path);

// XXH3 of all bytes of a file, as 16 hexadecimal digits. The file is read once from front to back
// and is not mapped, so that a disk that fails gives an exception. Throws std::system_error.
std::string xxh3_of_file(const std::filesystem::path& path);

// PREFIX.checksums
std::filesystem::path checksums_path(const std::filesystem::path& prefix);

}  // namespace weft
