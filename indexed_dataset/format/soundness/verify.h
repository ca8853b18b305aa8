// Is a dataset what was written? The checks that Megatron's own reader does not make.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/on_progress.h"

namespace weft {

struct VerifyResult {
  // Contradictions to the format or within the dataset. These must hold: sizes fit, offsets equal
  // the prefix sum of lengths, bounds rise from 0 to the number of sequences (or are absent, as old
  // merge tools wrote them), lengths are >= 0, ids are >= 0 and below the vocabulary's size.
  std::vector<std::string> structure_problems;
  // Blocks that differ from PREFIX.checksums: file, block, bytes, and which documents lie there.
  std::vector<std::string> checksum_problems;
  bool has_checksums = false;  // there is a PREFIX.checksums
  // The checksums of the .idx decide; without them, whether it contradicts itself or the size of
  // the .bin.
  bool index_is_sound = false;

  std::vector<std::string> problems() const;  // all of them
};

// Reads every byte of PREFIX.bin, .idx and what else PREFIX.checksums covers once, in parallel.
// With a `vocabulary_size` of 0, ids are only checked to be >= 0. Problems come with their
// position, the first few of each kind. Throws std::system_error if a file of the pair cannot be
// read.
VerifyResult verify_dataset_files(const std::filesystem::path& prefix, int64_t vocabulary_size,
                                  int num_threads, const OnProgress& on_progress = {});

// For a dataset that this program has finished, without reading it: throws ChecksumMismatch if
// PREFIX.checksums is missing or damaged, or if a file that it covers is missing or has another
// size.
void check_file_sizes(const std::filesystem::path& prefix);

}  // namespace weft
