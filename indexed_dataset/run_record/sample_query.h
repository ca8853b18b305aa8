// Finds the samples of a training run by its order, which is given by hand or read from the run's
// manifest (manifest_order.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/blends/build_datasets.h"

namespace weft {

// Returns the batch sizes of the run. Throws std::runtime_error if it tells no global_batch_size.
BatchSizePlan batch_sizes_of(const SampleOrder& order);

// Returns how many samples the run asks for: Megatron's rule (dataset_target_sizes()) with batch
// sizes that change if they do. Throws as that one does, and std::runtime_error without a
// global_batch_size where evaluations need it.
DatasetTargetSizes target_sizes_of(const SampleOrder& order, int64_t eval_iters);

// Returns the most samples of `split` that the run takes.
int64_t num_asked_samples(const SampleOrder& order, Split split);

// Returns the group of this name; "" is the only one that there is. Throws UsageError
// that names all groups if there is none, or if "" could be several.
const Blend& find_group(const SplitBlends& blends, Split split, const std::string& name);

// In what two orders differ: the option or fact, and what each of them says.
struct OrderDifference {
  std::string name, a, b;
};
// Returns what makes sample i of `split` another one; nothing if it is the same for every i and
// every group. If curricula of sequence lengths differ, other parts of these samples may be
// trained.
std::vector<OrderDifference> differences_in_samples(const SampleOrder& a, const SampleOrder& b,
                                                    Split split);
// Returns what else makes iterations of training take other samples, or other parts of them.
std::vector<OrderDifference> differences_in_iterations(const SampleOrder& a, const SampleOrder& b);

struct GroupSamples {
  std::optional<BlendedDataset> samples;  // nothing for a test split that gets no share
  std::vector<std::string>
      notes;  // whether caches of indexes or the arguments are shown; for people
};
// Builds only the datasets of this group, as the training run does. Throws as
// build_training_datasets() does, and std::runtime_error where index caches of Megatron are there
// for other numbers of samples, or for some of the datasets only.
GroupSamples build_group(const SampleOrder& order, Split split, const std::string& group);

}  // namespace weft
