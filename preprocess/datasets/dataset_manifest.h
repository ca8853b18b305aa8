// PREFIX.manifest.json beside PREFIX.bin and PREFIX.idx: how the pair was made. Nothing needs it to
// train; `info`, `verify` and `inspect` find the vocabulary and the expected counts in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace weft {

std::filesystem::path manifest_path(const std::filesystem::path& prefix);

// What the tools need of it.
struct StoredManifest {
  int64_t num_documents = 0, num_tokens = 0;
  int32_t vocabulary_size = 0;
  std::filesystem::path vocab_file, merge_file;
  std::string vocab_sha256, merge_sha256;
  // Of what was made of what; empty in older manifests.
  std::string run_identity, run_hash;
};

// Nothing if there is no manifest. Throws std::runtime_error if it is not one.
std::optional<StoredManifest> read_dataset_manifest(const std::filesystem::path& prefix);

}  // namespace weft
