// What ranks are told of the last passes, and what they answer. When the documents of every task
// are at their places, the index is completed and every byte is read back for the checksums: parts
// of that work go to all ranks as tasks did before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "indexed_dataset/pair/dataset_counts.h"
#include "preprocess/datasets/written_checksums.h"

namespace weft {

// The places of a task's documents.
struct WrittenPlace {
  DatasetCounts before;         // in the dataset
  int64_t num_input_bytes = 0;  // in the input, as TaskOffset::num_input_bytes
};

struct LastPassPart {
  int64_t number = 0;   // from 0
  int64_t dataset = 0;  // of the keys
  // kIndex completes the .idx for the documents of some tasks, the others read a file back.
  enum class Kind : uint8_t { kIndex, kBin, kSources, kIdx } kind = Kind::kIndex;
  // kIndex: all of the dataset, each task's place, and the place behind the last one.
  DatasetCounts total;
  std::vector<WrittenPlace> places;
  // Else: bytes from a multiple of kChecksumBlockBytes to another one, or to the file's end, and
  // where between them what different tasks wrote meets.
  int64_t begin_bytes = 0, end_bytes = 0;
  std::vector<int64_t> cuts;
};

struct LastPassResult {
  int64_t number = 0;
  // kIndex: lengths, documents and sources of each task as they were read (WrittenChecksums); then
  // of all together the bytes of offsets, document bounds and sources in the files. Else: the bytes
  // between cuts.
  std::vector<Crc32> checksums;
  std::vector<uint64_t> block_hashes;  // of block_checksums.h; kIndex: none
};

// The suffix of the file that a part is about.
const char* file_suffix(LastPassPart::Kind kind);

}  // namespace weft
