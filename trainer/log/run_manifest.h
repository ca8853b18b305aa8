// RUN_DIR/run_manifest.json describes a run. `weft-data inspect samples --run RUN_DIR` reads it to
// map iterations to text.
//
// A run that was resumed has several segments, whose arguments may differ. The file describes the
// last one, and "earlier" in it is the list of those before, oldest first. A segment holds the
// iterations from its resumed_iteration + 1 to the next one's resumed_iteration; its first sample
// is number resumed_samples of the training set.
//
// A run that goes back to an older checkpoint begins a new branch. Each checkpoint keeps the checksums of the
// segments that led to it, so that a run which returns to the first branch has its segments again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/run_folder/unseen_documents.h"
#include "indexed_dataset/samples/cyclic_order.h"
#include "trainer/config/config.h"
#include "trainer/data/data_identity.h"

namespace weft {

struct RunManifest {
  // Checksums of the parts of the run that led to the checkpoint; empty where it does not tell them.
  std::vector<std::string> segments = {};
  int64_t newest_checkpoint = 0;  // the last iteration of which the --save folder has a checkpoint
  const Config& config;           // with defaults filled in; becomes "arguments"
  std::string device;
  // Written as an absolute path: a run is inspected from anywhere. Empty where there are several.
  std::string dataset_prefix;
  std::optional<CyclicOptions> cyclic = {};  // with --dataloader-type cyclic
  // The manifest has "working_directory" for relative prefixes of the blends.
  const DataIdentity& data;
  const UnseenDocuments* unseen = nullptr;  // with --unsee
  int64_t padded_vocabulary_size = 0, num_parameters = 0;
  int64_t num_iterations = 0;
  // The samples that the run asks of the dataset.
  int64_t train_samples = 0, valid_samples = 0, test_samples = 0;
  int64_t resumed_iteration = 0, resumed_samples = 0, resumed_tokens = 0;
  // Where the first evaluation begins; it may be one that was cut short at resumed_iteration.
  int64_t resumed_valid_samples = 0;
  bool makes_up_evaluation = false;
};

// Creates the folder and writes the file whole or not at all. A file of --unsee is copied into it first, under
// a name of its checksum: the run can be inspected when the file is gone. The segments of a file that is there
// already are kept as far as this run goes on from them: where it loaded what that run had saved. Others stand
// under "abandoned" as long as there may be checkpoints of theirs, to which a run can return. Returns the
// checksums of the parts of this run, itself the last. Throws std::system_error.
std::vector<std::string> write_run_manifest(const std::filesystem::path& run_folder,
                                            const RunManifest& manifest);

}  // namespace weft
