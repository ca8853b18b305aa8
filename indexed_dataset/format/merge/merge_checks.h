// A merge compares its parts with their checksums while it reads them, and what it has written with
// the bytes that it then reads. A flipped bit of a part, or bytes that a network file system has
// lost, would otherwise be sound from then on: the result gets checksums of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "indexed_dataset/base/storage/crc32.h"
#include "indexed_dataset/format/merge/merge_pairs.h"

namespace weft {

class PartChecks {
 public:
  // Reads PREFIX.checksums of the parts that have it, and compares each .idx with it. Throws
  // ChecksumMismatch.
  PartChecks(const PairMerge& pairs, int num_threads);
  // Compares a piece of a part's .bin (PairMerge::SeePiece). Throws ChecksumMismatch.
  void compare(size_t part_idx, int64_t offset_bytes, std::span<const std::byte> bytes) const;

 private:
  struct Part {
    std::filesystem::path prefix;
    std::optional<std::vector<uint64_t>> bin_blocks;  // absent: there is nothing to compare with
  };
  std::vector<Part> parts_;
};

// A file that was written, and the checksum that its bytes from `begin_bytes` on must have.
struct WrittenFile {
  std::filesystem::path path;
  int64_t begin_bytes = 0;
  Crc32 crc;
};

class ReadBack {
 public:
  explicit ReadBack(std::vector<WrittenFile> files);
  // Takes pieces as SeePiece of block_checksums.h gives them.
  void see(size_t file_idx, int64_t offset_bytes, std::span<const std::byte> bytes);
  // Throws ChecksumMismatch if other bytes came back than were written. Call it when all were seen.
  void check() const;

 private:
  std::vector<WrittenFile> files_;
  std::vector<std::vector<Crc32>> blocks_;  // by file; a block is read by one thread, in order
};

}  // namespace weft
