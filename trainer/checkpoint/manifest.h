// manifest.json of a checkpoint: it tells which file holds which slice of which tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"

namespace weft {

// A slice of a global tensor as it lies in a file.
struct ManifestTensor {
  std::string name, file, dtype;
  std::vector<int64_t> global_shape;
  int split_dim = -1;
  int64_t begin = 0, end = 0;
  uint64_t xxh3 = 0;  // of the slice's bytes
};

struct Manifest {
  CheckpointInfo info;
  std::vector<ManifestTensor> tensors;

  const ManifestTensor* find(std::string_view name) const;  // null if there is none
};

// Returns JSON whose last field is the XXH3 checksum of everything before it.
std::string to_json(const Manifest& manifest);
// Throws std::runtime_error, which names `path`, if the file is no manifest, and ChecksumMismatch
// if it was changed since it was written.
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace weft
