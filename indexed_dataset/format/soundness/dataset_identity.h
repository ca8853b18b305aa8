// Tells whether a dataset has the bytes that it had when a run began: checkpoints and run manifests
// hold its identity, so that a dataset which was replaced under the same name is noticed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace weft {

struct DatasetIdentity {
  std::string prefix;  // absolute, symbolic links resolved
  int64_t num_documents = 0, num_sequences = 0, num_tokens = 0;
  int64_t bin_bytes = 0;
  uint64_t idx_xxh3 = 0;  // of the whole .idx
  // XXH3 of the .bin: of all of it up to 64 MiB, else of 64 pieces of 1 MiB at equal distances, the
  // first and the last one among them.
  uint64_t bin_xxh3 = 0;
  // XXH3 of the .bin's block checksums in PREFIX.checksums, which cover every byte; absent where
  // there is no such file, or where it is of a .bin of another size.
  std::optional<uint64_t> blocks_xxh3 = {};
};

// Returns the bytes of the .bin that bin_xxh3 does not cover.
int64_t bin_bytes_not_compared(const DatasetIdentity& dataset);
// Returns whether both are of the same bytes, wherever these lie.
bool same_bytes(const DatasetIdentity& a, const DatasetIdentity& b);
// Returns "300 documents, 25012 tokens (.idx XXH3 ..., .bin XXH3 ...)".
std::string describe(const DatasetIdentity& dataset);

// Reads the .idx once, and of the .bin what the checksum needs. Throws std::runtime_error if the
// offsets of the .idx do not follow from its lengths, and what DatasetReader throws.
DatasetIdentity identify_dataset(const std::filesystem::path& prefix);

// Throws std::runtime_error if the dataset at `prefix` is not the one that a run has read. What it
// reads has a bound, for tools that answer at once: the .idx is compared as a whole up to 1 GiB,
// beyond that only the counts in it are.
void check_same_dataset(const std::filesystem::path& prefix, const DatasetIdentity& of_run);

// dataset_identity_from_json() throws std::runtime_error or a JSON exception for anything that
// to_json() does not make.
nlohmann::ordered_json to_json(const DatasetIdentity& dataset);
DatasetIdentity dataset_identity_from_json(const nlohmann::ordered_json& json);

}  // namespace weft
