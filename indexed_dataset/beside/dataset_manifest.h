// Reads PREFIX.manifest.json, which stands beside PREFIX.bin and PREFIX.idx and says how they were
// made. Training does not need it; `info`, `verify` and `inspect` find the vocabulary and the
// expected counts in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace weft {

std::filesystem::path manifest_path(const std::filesystem::path& prefix);

// Holds what the tools need of a manifest, and all of it as JSON.
struct StoredManifest {
  int64_t num_documents = 0, num_tokens = 0;
  int32_t vocabulary_size = 0;
  std::filesystem::path vocab_file, merge_file;
  std::string vocab_sha256, merge_sha256;
  // They identify the inputs and options of the run; empty in older manifests.
  std::string run_identity, run_hash;
  nlohmann::ordered_json json;  // an object

  // The value of an option of the command that made the dataset; "" if it is not there.
  std::string option(const std::string& name) const;
};

// Returns nothing if there is no manifest. Throws std::runtime_error if the file is none.
std::optional<StoredManifest> read_dataset_manifest(const std::filesystem::path& prefix);

}  // namespace weft
