// Writes PREFIX.manifest.json: how a run made its dataset (dataset_manifest.h reads it).
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "preprocess/run/pipeline_config.h"

namespace weft {

// The part of a manifest that the report does not hold.
struct ManifestOrigin {
  std::string program_version, unicode_version;
  std::string nfc_version;  // "" if the tokenizer does not normalize
  std::vector<std::pair<std::string, std::string>> options;  // resolved
  DatasetVocabulary vocabulary;
  double seconds = 0;
};

// Writes the manifest of report.outputs[output_idx] to `path`, whole or not at all. Throws
// std::system_error.
void write_manifest(const std::filesystem::path& path, const PipelineReport& report,
                    size_t output_idx, const ManifestOrigin& origin);

}  // namespace weft
