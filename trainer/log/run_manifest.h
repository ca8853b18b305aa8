// RUN_DIR/run_manifest.json describes a run. `weft-data inspect samples --run RUN_DIR` reads it to
// map iterations to text.
//
// A run that was resumed has several segments, whose arguments may differ. The file describes the
// last one, and "earlier" in it lists those before (run_record/segment_list.h). A segment holds the
// iterations from its resumed_iteration + 1 to the next one's resumed_iteration; its first sample
// is number resumed_samples of the training set.
//
// Each checkpoint keeps the segments that led to it. A run that goes back to an older checkpoint
// begins another way: its iterations from there on are not those of the way that it leaves. It may
// return to a checkpoint of that way later, and has the segments of that one then, whatever the
// folder's manifest tells.
//
// "run_id" is that of the logs in the folder. A run that goes on in its folder keeps it, and cuts
// the files that carry it; one that begins anew, or goes on in another folder, has another id and
// leaves them alone. The lock of the folder is the lock of its id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/samples/cyclic_order.h"
#include "indexed_dataset/run_record/unseen_documents.h"
#include "trainer/config/config.h"
#include "trainer/identity/data_identity.h"

namespace weft {

struct RunManifest {
  const Config& config;  // with defaults filled in; becomes "arguments"
  std::string device;
  std::string run_id;
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
  std::string segments_json = {};  // those that led there; empty where nothing tells them
  // Where the first evaluation begins; it may be one that was cut short at resumed_iteration.
  int64_t resumed_valid_samples = 0;
  bool makes_up_evaluation = false;
};

// Creates the folder and writes the file whole or not at all. A file of --unsee is copied into it
// first, under a name of its checksum: the run can be inspected when the file is gone. Returns the
// list of all segments, this one the last, for checkpoints. Throws std::system_error.
std::string write_run_manifest(const std::filesystem::path& run_folder,
                               const RunManifest& manifest);

// The last step that logs have.
struct LogEnd {
  int64_t iteration = 0, consumed_samples = 0;

  bool operator==(const LogEnd&) const = default;
};

// Returns 16 random hexadecimal digits.
std::string new_run_id();

// The logs in a folder that a run goes on with.
struct SharedLogs {
  LogEnd end;  // how far they are this run's
  std::string run_id =
      {};  // empty where the manifest lies in another folder than it was written to
};
// Returns how far the logs in the folder are those of a run that goes on at `resumed`, after the
// segments in `segments_json`. A run that has taken another way since has logged its own steps from
// there on. Returns nothing where the logs are another run's, or no manifest tells whose they are.
std::optional<SharedLogs> find_shared_logs(const std::filesystem::path& run_folder,
                                           const std::string& segments_json, const LogEnd& resumed);
// Returns whether an evaluation (--skip-train) of weights that no run has trained has written the
// folder's manifest.
bool is_of_untrained_evaluation(const std::filesystem::path& run_folder);

// Returns the iteration behind which the run has logged into the folder: it may have come there
// from another one's checkpoint. Throws std::runtime_error for a damaged manifest.
int64_t first_iteration_of_logs(const std::filesystem::path& run_folder);

// Returns the names of metrics.jsonl, sample_losses.bin and run_manifest.json that are in the
// folder.
std::vector<std::string> logs_in(const std::filesystem::path& run_folder);
// Renames these, which are another run's or may be, and returns their new names. These are free
// ones: no earlier log is replaced. Throws std::system_error.
std::vector<std::string> set_logs_aside(const std::filesystem::path& run_folder,
                                        int64_t resumed_iteration);

}  // namespace weft
