#include "indexed_dataset/order/blends/sample_query.h"

#include <stdexcept>

#include "indexed_dataset/base/terminal/messages.h"

namespace weft {
namespace {

// Returns the iterations that Megatron counts before it builds its datasets: those of the ramp-up, and then
// whole batches [Megatron-LM megatron/training/training.py, update_train_iters]. Newer versions leave the ramp
// where training ends; older ones count it to its end and subtract what is too much in batches of full size.
int64_t iterations_counted_by_megatron(const SampleOrder& order, bool stops_in_ramp) {
  const int64_t num_samples = *order.train_samples, full = *order.global_batch_size,
                end_of_ramp = order.rampup_batch_size.at(2);
  const BatchSizePlan plan = batch_sizes_of(order);
  int64_t iterations = 0, consumed = 0;
  while (consumed <= end_of_ramp && (!stops_in_ramp || consumed <= num_samples)) {
    consumed += plan.batch_size(consumed);
    ++iterations;
  }
  if (consumed <= num_samples) return iterations + (num_samples - consumed) / full;
  return stops_in_ramp ? iterations : iterations - (consumed - num_samples + full - 1) / full;
}

// Returns the validation samples of a run of Megatron with a ramp-up. Throws std::runtime_error where its
// versions ask for different numbers.
int64_t validation_samples_of_megatron(const SampleOrder& order) {
  const auto samples = [&](bool stops_in_ramp) {
    return dataset_target_sizes(std::nullopt, iterations_counted_by_megatron(order, stops_in_ramp),
                                *order.global_batch_size, order.eval_interval, order.eval_iters)
        .valid_samples;
  };
  const int64_t older = samples(false);
  if (rules_of(order.data.order).precedes_core) return older;
  const int64_t newer = samples(true);
  if (older == newer) return newer;
  const auto text = [](int64_t number) { return std::to_string(number); };
  throw std::runtime_error(
      "with rampup_batch_size " + text(order.rampup_batch_size[0]) + " " +
      text(order.rampup_batch_size[1]) + " " + text(order.rampup_batch_size[2]) +
      " and train_samples " + text(*order.train_samples) +
      " training ends before the ramp does, and versions of Megatron then ask for different numbers of "
      "validation samples, " +
      text(newer) + " or " + text(older) +
      ", so that the validation set is not known; the samples of training are");
}

DatasetTargetSizes target_sizes(const SampleOrder& order, Split split) {
  if (order.asked_samples) return *order.asked_samples;
  // The train split does not depend on the batch size unless iterations are counted.
  DatasetTargetSizes sizes = target_sizes_of(order, split == Split::kTrain ? 0 : order.eval_iters);
  const bool has_ramp = order.rampup_batch_size.size() == 3 && batch_sizes_of(order).changes();
  if (order.data.takes_megatron_caches && split == Split::kValid && has_ramp &&
      order.step_batch_size_schedule.empty() && order.train_samples && order.eval_iters > 0)
    sizes.valid_samples = validation_samples_of_megatron(order);
  return sizes;
}

// A run of Megatron has left the caches of all its indexes. Where some are there, and another is only for
// another number of samples or not at all, the arguments or the order are not those of the run.
[[noreturn]] void throw_missing_cache(const IndexReport& missing) {
  std::string others;
  for (const auto* sizes : {&missing.other_caches, &missing.other_caches_of_weft}) {
    for (const std::string& size : *sizes)
      others += (others.empty() ? "" : ", ") + (size == "None" ? "one epoch" : size);
  }
  throw std::runtime_error(
      "there are index caches, but none of " + missing.name + " for " +
      (missing.num_asked < 0 ? "one epoch" : std::to_string(missing.num_asked) + " samples") +
      (others.empty() ? "" : ", only for " + others) +
      ": these arguments and this --sample-order are not those of a run that left the caches (blends of "
      "Megatron-Core have other sizes from 0.11 on, core, than before it, core-0.10). If the run left "
      "none, move the caches of other runs away, and the indexes are built from the arguments");
}

std::string begun_text(const IndexReport& begun) {
  return "weft-data was killed while it wrote the index cache of " + begun.name +
         ", or is still at it: files of Megatron that had these names may be half replaced, and none of them is read (" +
         begun.begun_stamp + ")";
}

[[noreturn]] void throw_half_replaced(const IndexReport& begun) {
  throw std::runtime_error(
      begun_text(begun) +
      "; if the data are those that the run has read, complete it: run weft-data index with the run's "
      "arguments again; else put the run's own files back, and remove this stamp");
}

// Says whether index caches are shown, or what the arguments say. Throws std::runtime_error where both would
// be mixed. Caches of Weft's own are built from the arguments, too: that they lack a dataset says nothing, but
// where they have it for another number of samples only, it was built by other arguments than the rest.
void tell_what_is_cached(const std::vector<IndexReport>& reports) {
  const IndexReport *missing = nullptr, *of_other_size = nullptr, *begun = nullptr;
  bool has_megatrons = false;
  size_t num_cached = 0;
  for (const IndexReport& report : reports) {
    if (!report.is_kept) continue;
    num_cached += report.was_cached ? 1 : 0;
    has_megatrons = has_megatrons || report.is_from_megatron || !report.other_caches.empty();
    if (report.was_cached) continue;
    if (!missing) missing = &report;
    if (!begun && !report.begun_stamp.empty()) begun = &report;
    const bool has_others = !report.other_caches.empty() || !report.other_caches_of_weft.empty();
    if (!of_other_size && has_others) of_other_size = &report;
  }
  if (!missing) {
    print_message("the indexes are mapped from caches");
    return;
  }
  if (!missing->unread_caches.empty())
    print_message("index caches that cannot be read are left out: " + missing->unread_caches);
  if (begun && has_megatrons) throw_half_replaced(*begun);
  if (begun) print_message(begun_text(*begun));
  if (has_megatrons || (num_cached > 0 && of_other_size)) {
    throw_missing_cache(of_other_size ? *of_other_size : *missing);
  } else if (num_cached > 0) {
    print_message(
        "some indexes are mapped from caches that weft-data has built, and the others are built from the "
        "arguments");
  } else if (of_other_size) {
    print_message("the indexes are built from the arguments: caches that weft-data has built of " +
                  of_other_size->name + " are for other numbers of samples");
  } else {
    print_message("no index cache was found: the indexes are built from the arguments");
  }
}

int64_t& samples_of(DatasetTargetSizes& sizes, Split split) {
  return split == Split::kTrain   ? sizes.train_samples
         : split == Split::kValid ? sizes.valid_samples
                                  : sizes.test_samples;
}

}  // namespace

BatchSizePlan batch_sizes_of(const SampleOrder& order) {
  if (!order.global_batch_size) throw std::runtime_error("the run tells no global_batch_size");
  return BatchSizePlan::of_options(order.step_batch_size_schedule, *order.global_batch_size,
                                   order.rampup_batch_size, order.data.sequence_length);
}

DatasetTargetSizes target_sizes_of(const SampleOrder& order, int64_t eval_iters) {
  DatasetTargetSizes sizes =
      dataset_target_sizes(order.train_samples, order.train_iters.value_or(0),
                           order.global_batch_size.value_or(1), order.eval_interval, eval_iters);
  if (!order.train_samples || eval_iters == 0) return sizes;
  // Smaller batches make more iterations, and so more evaluations.
  sizes.train_iters = batch_sizes_of(order).iterations_within(*order.train_samples);
  sizes.valid_samples =
      dataset_target_sizes(std::nullopt, sizes.train_iters, *order.global_batch_size,
                           order.eval_interval, eval_iters)
          .valid_samples;
  return sizes;
}

std::pair<int64_t, int64_t> samples_of_iteration(const SampleOrder& order, int64_t iteration,
                                                 const Resumption& resumed) {
  const BatchSizePlan plan = batch_sizes_of(order);
  const auto first = plan.consumed_after(iteration - 1 - resumed.iteration, resumed.samples);
  const auto last = first ? plan.consumed_after(1, *first) : std::nullopt;
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

const Blend& find_group(const SplitBlends& blends, Split split, const std::string& name) {
  const std::vector<Blend>& groups = blends.of(split);
  if (groups.size() == 1 && name.empty()) return groups.front();
  std::string names;
  for (const Blend& group : groups) {
    if (group.name == name && !name.empty()) return group;
    names += (names.empty() ? "" : ", ") + (group.name.empty() ? "one without a name" : group.name);
  }
  const std::string split_text(split_name(split));
  if (groups.empty()) throw std::invalid_argument("the run names no dataset for " + split_text);
  if (name.empty())
    throw std::invalid_argument(split_text +
                                " has several groups; give one with --group: " + names);
  throw std::invalid_argument("--group " + name + ": " + split_text +
                              " has no group of this name: " + names);
}

std::optional<BlendedDataset> find_samples_of_group(const SampleOrder& order, Split split,
                                                    const std::string& group) {
  DatasetOptions options = order.data;
  DatasetTargetSizes sizes = target_sizes(order, split);
  sizes.eval_iters = order.eval_iters;
  for (const Split other : {Split::kTrain, Split::kValid, Split::kTest}) {
    if (other == split) continue;
    samples_of(sizes, other) = 0;
    options.blends.blends[static_cast<size_t>(other)].clear();
  }
  if (split != Split::kTrain) options.blends.changes.clear();
  options.blends.blends[static_cast<size_t>(split)] = {find_group(order.data.blends, split, group)};
  TrainingDatasets datasets = build_training_datasets(options, sizes);
  if (options.takes_megatron_caches) tell_what_is_cached(datasets.reports);
  if (datasets.train) return std::move(*datasets.train);
  for (auto* groups : {&datasets.valid, &datasets.test}) {
    if (!groups->empty()) return std::move(groups->front().dataset);
  }
  return std::nullopt;
}

BlendedDataset build_group(const SampleOrder& order, Split split, const std::string& group) {
  if (auto dataset = find_samples_of_group(order, split, group)) return std::move(*dataset);
  throw std::invalid_argument("the " + std::string(split_name(split)) +
                              " split has no samples in this run (--split " + order.data.split +
                              ", --eval-iters " + std::to_string(order.eval_iters) + ")");
}

}  // namespace weft
