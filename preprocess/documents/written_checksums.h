// Checksums of what is written to a dataset, made from the tokens in memory before any file system
// sees them, so that bytes which did not arrive are found before the dataset gets its name.
//
// A task's documents are checked independently of where they go: numbers that count from the begin
// of a file or an input are taken relative to the task. So the checksums are known, and in the
// journal, before the task's place is.
#pragma once

#include <cstdint>

#include "indexed_dataset/base/storage/crc32.h"
#include "preprocess/documents/batch.h"

namespace weft {

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
