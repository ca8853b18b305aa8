// RUN_DIR/run_manifest.json describes a run. `weft-data inspect samples --run RUN_DIR` reads it to
// map iterations to text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/config/config.h"
#include "trainer/data/data_identity.h"

namespace weft {

struct RunManifest {
  const Config& config;  // with defaults filled in; becomes "arguments"
  std::string device;
  std::string dataset_prefix;  // written as an absolute path: a run is inspected from anywhere
  const DataIdentity& data;
  int64_t padded_vocabulary_size = 0, num_parameters = 0;
  int64_t num_iterations = 0;
  // The samples that the run asks of the dataset.
  int64_t train_samples = 0, valid_samples = 0, test_samples = 0;
  int64_t resumed_iteration = 0;
};

// Creates the folder and writes the file whole or not at all. Throws std::system_error.
void write_run_manifest(const std::filesystem::path& run_folder, const RunManifest& manifest);

}  // namespace weft
