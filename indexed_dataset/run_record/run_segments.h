// The parts of a training run. Each time the program goes on with a run, its arguments may change,
// and with them the samples that an iteration takes: every such segment of the run has an order of
// its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/format/soundness/dataset_identity.h"
#include "indexed_dataset/order/blends/sample_order.h"
#include "indexed_dataset/run_record/dataset_names.h"

namespace weft {

// A file of --unsee as a manifest tells of it.
struct UnseeFile {
  std::filesystem::path path, copy;  // the copy lies in the run's folder
  std::string sha256;
  std::filesystem::path directory;  // the run's working directory
};

// A run that was resumed counts iterations, samples and tokens from there on.
struct Resumption {
  int64_t iteration = 0, samples = 0, tokens = 0;
};

struct RunSegment {
  SampleOrder order;
  std::optional<UnseeFile> unsee;
  Resumption resumed;  // where it begins
  // The sample with which its first evaluation begins; that evaluation may be one which was cut
  // short where the segment begins.
  int64_t resumed_valid_samples = 0;
  bool makes_up_evaluation = false;
  // Arguments of another program with which the samples of evaluations and of the test are not
  // known; mostly none.
  std::string unknown_evaluations;
  // The datasets that were read, in the order of SplitBlends::prefixes(); a file that holds
  // arguments only does not tell.
  std::vector<DatasetIdentity> datasets;
  // Iterations whose samples were consumed without training, first and last of each range.
  std::vector<std::pair<int64_t, int64_t>> untrained_iterations = {};
  // The number of iterations of the whole run, if the file tells it. A run that goes on with a
  // smaller batch size takes more samples than its arguments ask for, as long as the index has
  // them.
  std::optional<int64_t> num_iterations;
};

// Throws std::runtime_error that names a dataset of this group which is not the one that the
// segment has read. What it reads of each has a bound (dataset_identity.h).
void check_same_datasets(const RunSegment& segment, Split split, const std::string& group);

// Returns the names of all datasets that the parts of a run read.
DatasetNames dataset_names_of(const std::vector<RunSegment>& segments);

// Returns true if sample i of `split` is the same in both segments, for every i and every group. If
// their curricula differ, they may still train other parts of these samples.
bool have_equal_samples(const RunSegment& a, const RunSegment& b, Split split);

}  // namespace weft
