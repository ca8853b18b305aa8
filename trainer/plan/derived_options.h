// Options that follow from files: from the datasets, or from a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/config.h"

namespace weft {

// Sets --train-samples of --train-epochs: the whole samples that so many epochs of the training set
// have. Throws UsageError where that is no number of one dataset, or of each sample of
// several once; and as DatasetReader.
void resolve_train_epochs(Config& config);

// Takes the dataset of --mock-data for the run, and writes it if it is not there: two thousand
// documents of growing numbers, in the folder of temporary files, the same on each host. Throws
// std::system_error, and as find_run_vocabulary().
void make_mock_data(Config& config);

// Returns the arguments of --use-checkpoint-args: the shape of the model in --load. Empty where
// there is no checkpoint yet. Throws as checkpoint_to_load() and read_checkpoint_info().
std::vector<std::string> arguments_of_checkpoint(const Config& config);

}  // namespace weft
