#include "indexed_dataset/order/blends/build_datasets.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/order/blends/blend_schedule.h"
#include "indexed_dataset/order/blends/blend_sizes.h"
#include "indexed_dataset/order/blends/cached_blends.h"
#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/order/blends/split_datasets.h"

namespace weft {
namespace {

DatasetReaders open_readers(const SampleOrder& order, TrainingDatasets& datasets) {
  const std::vector<std::string> prefixes = order.blends.prefixes();
  datasets.readers.resize(prefixes.size());
  parallel_for(std::ssize(prefixes), num_build_threads(order), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    datasets.readers[at] = std::make_shared<DatasetReader>(prefixes[at]);
  });
  DatasetReaders readers;
  for (size_t i = 0; i < prefixes.size(); ++i) readers[prefixes[i]] = datasets.readers[i];
  return readers;
}

// Builds the blends of one split.
class SplitBuilder {
 public:
  SplitBuilder(const SampleOrder& order, const DatasetReaders& readers, Split split,
               const DatasetTargetSizes& sizes, CachedBlends& blends,
               std::vector<IndexReport>& reports, const OnProgress& on_progress)
      : order_(order),
        split_(split),
        datasets_(order, readers, split, sizes, reports, on_progress),
        blends_(blends),
        reports_(reports) {}

  BlendedDataset build(const Blend& blend, int64_t num_samples) {
    // GPT-NeoX blends a single dataset of a split, too, so that it builds more samples of it.
    if (order_.sample_order == OrderKind::kNeox && order_.blends.has_own_paths &&
        blend.weights.empty() && blend.prefixes.size() == 1) {
      Blend weighted = blend;
      weighted.weights = {1.0};
      return build(weighted, num_samples);
    }
    if (takes_all()) return build_all_samples(blend);
    if (split_ == Split::kTrain && !order_.blends.changes.empty())
      return build_scheduled(blend, num_samples);
    if (blend.prefixes.size() == 1 && blend.weights.empty())
      return BlendedDataset(std::move(datasets_.build(blend, {num_samples}).front()));
    if (blend.weights.empty()) return build_by_size(blend, num_samples);
    const BlendSizes sizes = blend_sizes(blend.weights, num_samples, order_.sample_order,
                                         order_.mid_level_dataset_surplus);
    const std::vector<std::optional<int64_t>> asked(sizes.num_to_build.begin(),
                                                    sizes.num_to_build.end());
    return join(blend, asked, datasets_.build(blend, asked), sizes.weights, sizes.size);
  }

  bool takes_all() const { return split_ == Split::kValid && order_.full_validation; }
  // Returns true if the split gets a share of any of its datasets.
  bool has_share(const Blend& blend) const {
    for (size_t i = 0; i < blend.prefixes.size(); ++i) {
      if (datasets_.range_of(blend, i)) return true;
    }
    return false;
  }

 private:
  // Without weights each dataset gives one epoch, in shares of the samples that this makes.
  BlendedDataset build_by_size(const Blend& blend, int64_t num_samples) {
    const std::vector<std::optional<int64_t>> asked(blend.prefixes.size());
    std::vector<GptDataset> datasets = datasets_.build(blend, asked);
    const std::vector<int64_t> counts = counts_of(blend, datasets);
    const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    return join(blend, asked, std::move(datasets),
                normalize_weights(std::vector<double>(counts.begin(), counts.end())),
                std::min(num_samples, total));
  }

  // One epoch of each dataset. The blending index is kept in no file: it takes less time than the
  // validation itself.
  BlendedDataset build_all_samples(const Blend& blend) {
    if (blend.prefixes.size() > 1 && !blend.weights.empty()) {
      throw UsageError("--full-validation takes every sample of " +
                       std::to_string(blend.prefixes.size()) +
                       " datasets once, so weights would mean nothing; name them without weights");
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<GptDataset> datasets =
        datasets_.build(blend, std::vector<std::optional<int64_t>>(blend.prefixes.size()));
    const std::vector<int64_t> counts = counts_of(blend, datasets);
    if (datasets.size() == 1) return BlendedDataset(std::move(datasets.front()));
    const auto index =
        std::make_shared<const BlendingIndex>(build_exhaustive_blending_index(counts));
    reports_.push_back({.split = split_,
                        .name = "blend",
                        .num_samples = index->view().size(),
                        .is_kept = false,
                        .seconds = seconds_since(start)});
    return {std::move(datasets), {.view = index->view(), .memory = index}};
  }

  std::vector<int64_t> counts_of(const Blend& blend,
                                 const std::vector<GptDataset>& datasets) const {
    std::vector<int64_t> counts;
    for (size_t i = 0; i < datasets.size(); ++i) {
      counts.push_back(datasets[i].num_samples());
      if (counts.back() > 0) continue;
      throw UsageError(datasets_.where(blend, i) + ": it gives no " +
                       std::string(split_name(split_)) + " sample of " +
                       std::to_string(order_.seq_length) + " tokens; leave it out" +
                       (takes_all() ? "" : ", or give weights (it is then repeated)"));
    }
    return counts;
  }

  BlendedDataset build_scheduled(const Blend& first, int64_t num_samples) {
    const auto start = std::chrono::steady_clock::now();
    BlendPlan plan = plan_blends(first, order_.blends.changes, num_samples, order_.seq_length,
                                 order_.sample_order, order_.mid_level_dataset_surplus);
    std::vector<GptDataset> datasets = datasets_.build(plan.datasets, plan.num_asked);
    std::vector<int64_t> counts;
    for (const GptDataset& dataset : datasets) counts.push_back(dataset.num_samples());
    std::vector<WantedIndex> laps;
    for (const auto& [dataset_idx, lap] : split_into_laps(plan.index, counts)) {
      const auto at = static_cast<size_t>(dataset_idx);
      if (lap > 0) laps.push_back({.at = at, .num_samples = plan.num_asked[at], .lap = lap});
    }
    for (GptDataset& dataset : datasets_.build_laps(plan.datasets, laps))
      datasets.push_back(std::move(dataset));
    reports_.push_back({.split = split_,
                        .name = "blend",
                        .num_asked = num_samples,
                        .num_samples = num_samples,
                        .is_kept = false,
                        .seconds = seconds_since(start)});
    const auto index = std::make_shared<const BlendingIndex>(std::move(plan.index));
    return {std::move(datasets), {.view = index->view(), .memory = index}};
  }

  // Returns the blend of datasets that are built.
  BlendedDataset join(const Blend& blend, const std::vector<std::optional<int64_t>>& asked,
                      std::vector<GptDataset> datasets, const std::vector<double>& weights,
                      int64_t size) {
    const auto start = std::chrono::steady_clock::now();
    const auto description = describe_blend(blend, asked, weights, size);
    IndexReport report{.split = split_, .name = "blend", .num_asked = size, .num_samples = size};
    CachedBlend built =
        blends_.find_or_build(description ? &*description : nullptr, weights, size, report);
    report.seconds = seconds_since(start);
    reports_.push_back(std::move(report));
    check_not_outrun(split_, order_.sample_order, order_.mid_level_dataset_surplus, built.counts,
                     datasets);
    return {std::move(datasets), std::move(built.index)};
  }

  // Returns the description that names the files of a blend; nothing where it is kept in none. Only
  // Megatron-Core keeps files of blends.
  std::optional<nlohmann::ordered_json> describe_blend(
      const Blend& blend, const std::vector<std::optional<int64_t>>& asked,
      const std::vector<double>& weights, int64_t size) const {
    const bool is_kept =
        !order_.cache_path.empty() &&
        (order_.sample_order == OrderKind::kCore || order_.sample_order == OrderKind::kCore010) &&
        asked.size() <= kMaxMegatronDatasets;
    if (!is_kept) return std::nullopt;
    std::vector<IndexDescription> descriptions;
    for (size_t i = 0; i < asked.size(); ++i)
      descriptions.push_back(datasets_.describe(blend, i, asked[i], order_.seed));
    return core_blend_description(descriptions, weights, size);
  }

  const SampleOrder& order_;
  const Split split_;
  SplitDatasets datasets_;
  CachedBlends& blends_;
  std::vector<IndexReport>& reports_;
};

// The cyclic sampler shuffles all samples that a blend has, and before Megatron-Core its size was
// num_samples in no program (blend_sizes.h).
BlendedDataset read_cyclically(BlendedDataset dataset, const SampleOrder& order) {
  if (!dataset.is_blend() || !rules_of(order.sample_order).precedes_core)
    return {std::move(dataset), *order.cyclic};
  throw UsageError(
      std::string(
          "--dataloader-type cyclic takes the samples of a blend in an order that depends on its "
          "size, which differs between the programs of --sample-order ") +
      name_of(order.sample_order) +
      ": sums of all samples of its datasets, or of what was asked for; give a single dataset, "
      "--dataloader-type single, or --sample-order core or core-0.10");
}

// Returns the training set as its curriculum draws from it.
BlendedDataset draw_by_difficulty(BlendedDataset train, const SampleOrder& order, int64_t num_draws,
                                  std::string& summary) {
  OpenedCurriculum opened = open_curriculum(
      *order.draws,
      {.num_samples = train.num_samples(),
       .num_draws = num_draws,
       .sequence_length = order.seq_length,
       .cache_path = order.cache_path,
       .maps_caches_only = order.maps_caches_only,
       .check_order = [&](const nlohmann::ordered_json& described, const std::string& of_what) {
         check_same_order(described, train, order, of_what);
       }});
  summary = std::move(opened.summary);
  return {std::move(train), std::move(opened.order)};
}

}  // namespace

const BlendedDataset* TrainingDatasets::first(Split split) const {
  if (split == Split::kTrain) return train ? &*train : nullptr;
  const auto& groups = split == Split::kValid ? valid : test;
  return groups.empty() ? nullptr : &groups.front().dataset;
}

TrainingDatasets build_training_datasets(const SampleOrder& order, const DatasetTargetSizes& sizes,
                                         const OnProgress& on_progress) {
  TrainingDatasets datasets;
  const DatasetReaders readers = open_readers(order, datasets);
  CachedBlends blends(order);
  const auto build = [&](Split split, int64_t num_samples, auto use) {
    if (num_samples == 0) return;
    SplitBuilder builder(order, readers, split, sizes, blends, datasets.reports, on_progress);
    for (const Blend& blend : order.blends.of(split)) {
      if (split == Split::kTest && !builder.has_share(blend)) continue;
      BlendedDataset dataset = builder.build(blend, num_samples);
      if (order.cyclic && !builder.takes_all())
        dataset = read_cyclically(std::move(dataset), order);
      use(blend, std::move(dataset));
    }
    if (split != Split::kTest && order.blends.of(split).empty()) {
      throw UsageError(std::string(split_name(split)) +
                       " requested but no dataset is named for it; give --" +
                       std::string(short_split_name(split)) + "-data-path" +
                       (split == Split::kTrain ? "" : " or --eval-iters 0"));
    }
  };
  build(Split::kTrain, sizes.train_samples, [&](const Blend&, BlendedDataset dataset) {
    datasets.train.emplace(order.draws
                               ? draw_by_difficulty(std::move(dataset), order, sizes.train_samples,
                                                    datasets.curriculum_summary)
                               : std::move(dataset));
  });
  build(Split::kValid, sizes.valid_samples, [&](const Blend& blend, BlendedDataset dataset) {
    datasets.valid.push_back({blend.name, std::move(dataset)});
  });
  build(Split::kTest, sizes.test_samples, [&](const Blend& blend, BlendedDataset dataset) {
    datasets.test.push_back({blend.name, std::move(dataset)});
  });
  return datasets;
}

}  // namespace weft
