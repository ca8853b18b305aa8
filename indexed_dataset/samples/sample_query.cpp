#include "indexed_dataset/samples/sample_query.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/samples/batch_rampup.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Returns nothing if the value is absent or null.
template <typename T>
std::optional<T> find_value(const Json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// Megatron takes a list; one dataset may stand alone in it.
std::string single_data_path(const Json& arguments) {
  const Json& value = arguments.at("data_path");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && value.size() == 1) return value[0].get<std::string>();
  throw std::runtime_error("the run's data_path is not one dataset; blends cannot be inspected");
}

// Samples of a blend, or of another order, would be others than those that are shown.
void check_is_known(const Json& arguments) {
  const auto order = find_value<std::string>(arguments, "sample_order");
  if (order && *order != "core") {
    throw std::runtime_error("the run's --sample-order is " + *order +
                             "; in this version only the order core can be inspected");
  }
  const auto is_given = [&](const char* name) {
    const auto found = arguments.find(name);
    return found != arguments.end() && !found->is_null() && !found->empty() && *found != "";
  };
  const auto paths = arguments.find("data_path");
  const bool is_blend = paths != arguments.end() && paths->is_array() && paths->size() > 1;
  for (const char* name : {"data_args_path", "train_data_path", "valid_data_path", "test_data_path",
                           "per_split_data_args_path", "train_weighted_split_paths",
                           "valid_weighted_split_paths", "test_weighted_split_paths"}) {
    if (!is_given(name) && !is_blend) continue;
    throw std::runtime_error(
        "the run's data is a blend or has paths for each split; in this version only runs of one "
        "--data-path can be inspected");
  }
}

DatasetTargetSizes target_sizes(const SampleOrder& order, Split split) {
  if (order.asked_samples) return *order.asked_samples;
  // The train split does not depend on the batch size unless iterations are counted.
  const int64_t eval_iters = split == Split::kTrain ? 0 : order.eval_iters;
  return dataset_target_sizes(order.train_samples, order.train_iters.value_or(0),
                              order.global_batch_size.value_or(1), order.eval_interval, eval_iters);
}

int64_t& samples_of(DatasetTargetSizes& sizes, Split split) {
  return split == Split::kTrain   ? sizes.train_samples
         : split == Split::kValid ? sizes.valid_samples
                                  : sizes.test_samples;
}

}  // namespace

SampleOrder sample_order_from(const Json& manifest) {
  const Json& arguments = manifest.at("arguments");
  check_is_known(arguments);
  SampleOrder order;
  order.data_path = find_value<std::string>(manifest, "dataset_prefix").value_or("");
  if (order.data_path.empty()) order.data_path = single_data_path(arguments);
  if (const auto samples = manifest.find("dataset_samples"); samples != manifest.end()) {
    order.asked_samples =
        DatasetTargetSizes{.train_samples = samples->at("train").get<int64_t>(),
                           .valid_samples = samples->at("validation").get<int64_t>(),
                           .test_samples = samples->at("test").get<int64_t>()};
  }
  order.seq_length = arguments.at("seq_length").get<int64_t>();
  order.split = arguments.at("split").get<std::string>();
  order.seed = arguments.at("seed").get<int64_t>();
  order.train_samples = find_value<int64_t>(arguments, "train_samples");
  // Megatron derives train_iters from train_samples and keeps both: the samples were what was asked
  // for.
  if (!order.train_samples) order.train_iters = find_value<int64_t>(arguments, "train_iters");
  order.eval_iters = arguments.at("eval_iters").get<int64_t>();
  order.eval_interval = arguments.at("eval_interval").get<int64_t>();
  order.global_batch_size = find_value<int64_t>(arguments, "global_batch_size");
  if (!order.global_batch_size)
    order.global_batch_size = find_value<int64_t>(arguments, "micro_batch_size");
  order.rampup_batch_size = find_value<std::vector<int64_t>>(arguments, "rampup_batch_size")
                                .value_or(order.rampup_batch_size);
  order.vocab_file = find_value<std::string>(arguments, "vocab_file").value_or("");
  order.merge_file = find_value<std::string>(arguments, "merge_file").value_or("");
  return order;
}

std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration,
                                                 const Resumption& resumed) {
  if (!order.global_batch_size) throw std::runtime_error("the run tells no global_batch_size");
  const BatchRampup rampup(*order.global_batch_size, order.rampup_batch_size);
  const auto first = rampup.consumed_after(iteration - 1 - resumed.iteration, resumed.samples);
  const auto last = first ? rampup.consumed_after(1, *first) : std::nullopt;
  if (!last) {
    throw std::invalid_argument("--iteration " + std::to_string(iteration) +
                                ": its samples do not fit 64 bits");
  }
  return {*first, *last};
}

int64_t num_asked_samples(const SampleOrder& order, Split split) {
  DatasetTargetSizes sizes = target_sizes(order, split);
  return samples_of(sizes, split);
}

GptDataset build_split(const SampleOrder& order, Split split) {
  DatasetTargetSizes sizes = target_sizes(order, split);
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other != split) samples_of(sizes, other) = 0;
  }
  GptDatasets datasets = build_gpt_datasets(without_suffix(order.data_path), order.split, sizes,
                                            *order.seq_length, order.seed);
  std::optional<GptDataset>& dataset = split == Split::kTrain   ? datasets.train
                                       : split == Split::kValid ? datasets.valid
                                                                : datasets.test;
  if (!dataset) {
    throw std::invalid_argument("the " + std::string(split_name(split)) +
                                " split has no samples in this run (--split " + order.split +
                                ", --eval-iters " + std::to_string(order.eval_iters) + ")");
  }
  return std::move(*dataset);
}

}  // namespace weft
