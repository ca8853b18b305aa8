// manifest.json of a checkpoint: what checkpoint.h promises, as data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/checkpoint_info.h"

namespace weft {

// One slice of one global tensor in one file.
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

  const ManifestTensor* find(std::string_view name) const;  // null where absent
};

// JSON whose last field is the XXH3 checksum of everything before it.
std::string to_json(const Manifest& manifest);
// Throws std::runtime_error naming `path` (not a manifest), ChecksumMismatch (changed since it was
// written).
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace weft
