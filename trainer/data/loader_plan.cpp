#include "trainer/data/loader_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/config/memory_plan.h"

namespace weft {

std::string LoaderPlan::to_string() const {
  return fmt::format(
      " > slots of the data loaders: {:.2f} MiB of pinned host memory (train {:.2f}, validation {:.2f}, "
      "test {:.2f})\n",
      to_mib(num_bytes()), to_mib(train_bytes), to_mib(valid_bytes), to_mib(test_bytes));
}

LoaderPlan plan_loaders(const Config& config, int64_t largest_global_batch_size,
                        const DatasetTargetSizes& sizes) {
  const auto num_groups = [&](Split split, int64_t num_samples) -> int64_t {
    if (num_samples == 0) return 0;
    if (config.plans_without_data()) return 1;
    return std::ssize(resolve_data_paths(config.paths).of(split));
  };
  const int64_t dp_size = config.data_parallel_size();
  LoaderSlots slots{.num_rows = largest_global_batch_size / dp_size,
                    .sequence_length = config.seq_length,
                    .has_mask = config.eod_mask_loss || !config.unsee.empty() ||
                                config.length_curriculum().reshapes(),
                    .has_bounds = config.restarts_positions() || config.masks_other_documents()};
  LoaderPlan plan;
  const int64_t num_train = std::min<int64_t>(1, num_groups(Split::kTrain, sizes.train_samples));
  plan.train_bytes = num_train * slots.num_bytes();
  slots.num_rows = config.global_batch() / dp_size;
  slots.has_mask = config.eod_mask_loss;
  const int64_t num_test = num_groups(Split::kTest, sizes.test_samples);
  plan.test_bytes = num_test * slots.num_bytes();
  slots.has_mask |= config.full_validation;
  const int64_t num_valid = num_groups(Split::kValid, sizes.valid_samples);
  plan.valid_bytes = num_valid * slots.num_bytes();
  plan.num_loaders = num_train + num_valid + num_test;
  return plan;
}

}  // namespace weft
