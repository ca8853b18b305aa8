// The parts of a training run. Each time the program goes on with a run, its arguments may change, and with
// them the samples that an iteration takes: every such segment of the run has an order of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/soundness/dataset_identity.h"
#include "indexed_dataset/order/blends/sample_query.h"
#include "indexed_dataset/run_record/dataset_names.h"
#include "indexed_dataset/run_record/run_metrics.h"

namespace weft {

// A file of --unsee as a manifest tells of it.
struct UnseeFile {
  std::filesystem::path path, copy;  // the copy lies in the run's folder
  std::string sha256;
  std::filesystem::path directory;  // the run's working directory
};

struct RunSegment {
  SampleOrder order;
  std::optional<UnseeFile> unsee;
  Resumption resumed;  // where it begins
  // The sample with which its first evaluation begins, if the file tells it; that evaluation may be one
  // which was cut short where the segment begins.
  std::optional<int64_t> resumed_valid_samples;
  bool makes_up_evaluation = false;
  // Arguments of another program with which the samples of evaluations and of the test are not known; mostly none.
  std::string unknown_evaluations;
  // The datasets that were read, in the order of SplitBlends::prefixes(); a file that holds arguments
  // only does not tell.
  std::vector<DatasetIdentity> datasets;
  // The number of iterations of the whole run, if the file tells it. A run that goes on with a
  // smaller batch size takes more samples than its arguments ask for, as long as the index has them.
  std::optional<int64_t> num_iterations;
};

// Throws std::runtime_error that names a dataset of this group which is not the one that the segment
// has read. What it reads of each has a bound (dataset_identity.h).
void check_same_datasets(const RunSegment& segment, Split split, const std::string& group);

// Returns the names of all datasets that the parts of a run read.
DatasetNames dataset_names_of(const std::vector<RunSegment>& segments);

// Returns true if sample i of `split` is the same in both segments, for every i and every group. If
// their curricula differ, they may still train other parts of these samples.
bool have_equal_samples(const RunSegment& a, const RunSegment& b, Split split);

// Samples [first, last) of one segment.
struct SegmentSamples {
  const RunSegment* segment = nullptr;
  int64_t first = 0, last = 0;
};

// Throws std::runtime_error if a step of metrics.jsonl took other samples than the segments say: the two
// files are of different runs.
void check_step(const std::vector<RunSegment>& segments, const LoggedStep& step);

// Returns what an iteration took. Throws std::runtime_error where the folder does not tell: the
// run began there from another run's checkpoint.
SegmentSamples samples_of_iteration(const std::vector<RunSegment>& segments, int64_t iteration);

// Throws std::runtime_error if the samples of validation and test are not known.
void check_evaluations_known(const RunSegment& segment);

// Returns what the evaluation after an iteration took of each group of validation datasets; the one at
// the end of the run, which comes in addition, goes on behind the last one. Throws
// std::invalid_argument where there was none, and std::runtime_error as above.
SegmentSamples samples_of_evaluation(const std::vector<RunSegment>& segments, int64_t iteration);

// The same for the validation of a segment that comes after `num_before` others of it. With
// --full-validation that is all samples of the largest group; the others have fewer.
SegmentSamples samples_of_validation(const RunSegment& segment, int64_t num_before);

// Returns true if an evaluation follows an iteration, by the segment that takes it. Throws
// std::runtime_error as above.
bool has_evaluation(const std::vector<RunSegment>& segments, int64_t iteration);

// Returns the number of the sample of `split` that follows the last one which the run may take.
int64_t end_of_samples(const RunSegment& segment, Split split);

// Returns whose samples [first, last) of `split` are; for the training set these may be several
// segments', in order. Throws std::runtime_error where the folder does not tell: before the first
// segment, or for a validation or test set that was another one before the run was resumed.
std::vector<SegmentSamples> samples_in_range(const std::vector<RunSegment>& segments, Split split,
                                             int64_t first, int64_t last);

}  // namespace weft
