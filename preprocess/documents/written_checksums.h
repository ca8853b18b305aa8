// Checksums of what is written to a dataset, made from the tokens in memory before any file system
// sees them, so that bytes which did not arrive are found before the dataset gets its name.
//
// A task's documents are checked independently of where they go: numbers that count from the begin
// of a file or an input are taken relative to the task. So the checksums are known, and in the
// journal, before the task's place is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "preprocess/documents/batch.h"

namespace weft {

// CRC-32 (that of gzip) of some bytes. It is weaker than XXH3, but the checksums of neighbouring
// pieces can be joined, wherever a file was cut. One flipped bit, and any burst of 32, is found for
// certain, anything else but once in 2^32.
class Crc32 {
 public:
  Crc32() = default;
  Crc32(uint32_t value, int64_t num_bytes) : value_(value), num_bytes_(num_bytes) {}
  static Crc32 of(std::span<const std::byte> bytes) {
    Crc32 crc;
    crc.add(bytes);
    return crc;
  }

  void add(std::span<const std::byte> bytes);
  void append(const Crc32& next);  // the bytes behind; takes time in the logarithm of their number

  uint32_t value() const { return value_; }
  int64_t num_bytes() const { return num_bytes_; }
  bool operator==(const Crc32&) const = default;

 private:
  uint32_t value_ = 0;
  int64_t num_bytes_ = 0;
};

// Checksums of the bytes that a task, or a part of it, adds to one dataset.
struct WrittenChecksums {
  Crc32 tokens;     // of .bin
  Crc32 lengths;    // of .idx: an int32 for each sequence
  Crc32 documents;  // of .idx: the number of sequences of each document, as int32
  Crc32 sources;    // entries of .sources, with offsets from the begin of the task

  void append(const WrittenChecksums& next);
  bool operator==(const WrittenChecksums&) const = default;
};

// Makes the checksums of a batch for one dataset.
WrittenChecksums written_checksums(const Batch::Output& output, int32_t input_idx);

}  // namespace weft
