// Reads PREFIX.manifest.json, which stands beside PREFIX.bin and PREFIX.idx and says how they were
// made. `info`, `verify` and `inspect` find the vocabulary and the expected counts in it, and
// training the vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"

namespace weft {

std::filesystem::path dataset_manifest_path(const std::filesystem::path& prefix);

// The vocabulary that a dataset was made with, "vocabulary" in its manifest.
struct DatasetVocabulary {
  int64_t size = 0;          // 0 where it is not known
  TokenizerFiles tokenizer;  // empty where it is not known
  int64_t end_of_document =
      -1;  // the token that ends documents; -1 where none does or it is not known
};

// {"size", "tokenizer" (tokenizer_files.h), "end_of_document"}
nlohmann::ordered_json to_json(const DatasetVocabulary& vocabulary);
// Reads it from PREFIX.manifest.json, which may hold nothing else. What is absent there, or no such
// value, is not known. Throws std::runtime_error if the file is no JSON.
DatasetVocabulary read_dataset_vocabulary(const std::filesystem::path& prefix);

// Holds what the tools need of a manifest, and all of it as JSON.
struct StoredManifest {
  int64_t num_documents = 0, num_tokens = 0;
  DatasetVocabulary vocabulary;
  // They identify the inputs and options of the run; empty in older manifests.
  std::string run_identity, run_hash;
  nlohmann::ordered_json json;  // an object

  // The value of an option of the command that made the dataset; "" if it is not there.
  std::string option(const std::string& name) const;
};

// Returns nothing if there is no manifest. Throws std::runtime_error if the file is none.
std::optional<StoredManifest> read_dataset_manifest(const std::filesystem::path& prefix);

// Part and number of parts of the option --shard: "3/16". False for anything else, and for more
// than a million parts, of which most would get no work.
bool parse_shard(const std::string& text, int64_t& index, int64_t& count);

}  // namespace weft
