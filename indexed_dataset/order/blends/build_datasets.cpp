#include "indexed_dataset/order/blends/build_datasets.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/order/blends/blend_schedule.h"
#include "indexed_dataset/order/blends/numpy_sum.h"
#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/order/blends/split_datasets.h"

namespace weft {
namespace {

DatasetReaders open_readers(const DatasetOptions& options, TrainingDatasets& datasets) {
  const std::vector<std::string> prefixes = options.blends.prefixes();
  datasets.readers.resize(prefixes.size());
  parallel_for(std::ssize(prefixes), num_build_threads(options), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    datasets.readers[at] = std::make_shared<DatasetReader>(prefixes[at]);
  });
  DatasetReaders readers;
  for (size_t i = 0; i < prefixes.size(); ++i) readers[prefixes[i]] = datasets.readers[i];
  return readers;
}

// A blending index follows from its weights, and a smaller one is the beginning of a larger one. Train
// has the most samples as a rule and comes first, so the other splits of the same blend need no work.
class BlendsInMemory {
 public:
  CachedBlend find_or_build(const std::vector<double>& weights, int64_t size) {
    const auto has_them = [&](const Built& built) {
      return built.weights == weights && std::ssize(built.index->sample_index) >= size;
    };
    auto built = std::find_if(built_.begin(), built_.end(), has_them);
    if (built == built_.end()) {
      auto index = std::make_shared<const BlendingIndex>(build_blending_index(weights, size));
      built = built_.insert(built_.end(), {weights, std::move(index)});
    }
    const BlendingIndexView view = built->index->view().first(size);
    return {.index = {.view = view, .memory = built->index}, .counts = view.counts(weights.size())};
  }

 private:
  struct Built {
    std::vector<double> weights;
    std::shared_ptr<const BlendingIndex> index;
  };
  std::vector<Built> built_;
};

// Builds the blends of one split.
class SplitBuilder {
 public:
  SplitBuilder(const DatasetOptions& options, const DatasetReaders& readers, Split split,
               const DatasetTargetSizes& sizes, BlendsInMemory& blends,
               std::vector<IndexReport>& reports)
      : options_(options),
        split_(split),
        datasets_(options, readers, split, sizes, reports),
        blends_(blends),
        reports_(reports) {}

  BlendedDataset build(const Blend& blend, int64_t num_samples) {
    // GPT-NeoX blends a single dataset of a split, too, so that it builds more samples of it.
    if (options_.order == OrderKind::kNeox && options_.blends.has_own_paths &&
        blend.weights.empty() && blend.prefixes.size() == 1) {
      Blend weighted = blend;
      weighted.weights = {1.0};
      return build(weighted, num_samples);
    }
    if (takes_all()) return build_all_samples(blend);
    if (split_ == Split::kTrain && !options_.blends.changes.empty())
      return build_scheduled(blend, num_samples);
    if (blend.prefixes.size() == 1 && blend.weights.empty())
      return BlendedDataset(std::move(datasets_.build(blend, {num_samples}).front()));
    if (blend.weights.empty()) return build_by_size(blend, num_samples);
    const BlendSizes sizes =
        blend_sizes(blend.weights, num_samples, options_.order, options_.surplus);
    const std::vector<std::optional<int64_t>> asked(sizes.num_to_build.begin(),
                                                    sizes.num_to_build.end());
    return join(blend, asked, datasets_.build(blend, asked), sizes.weights, sizes.size);
  }

  bool takes_all() const { return split_ == Split::kValid && options_.full_validation; }
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
      throw std::invalid_argument(
          "--full-validation takes every sample of " + std::to_string(blend.prefixes.size()) +
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
      throw std::invalid_argument(
          datasets_.where(blend, i) + ": it gives no " + std::string(split_name(split_)) +
          " sample of " + std::to_string(options_.sequence_length) + " tokens; leave it out" +
          (takes_all() ? "" : ", or give weights (it is then repeated)"));
    }
    return counts;
  }

  BlendedDataset build_scheduled(const Blend& first, int64_t num_samples) {
    const auto start = std::chrono::steady_clock::now();
    BlendPlan plan = plan_blends(first, options_.blends.changes, num_samples,
                                 options_.sequence_length, options_.order, options_.surplus);
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

  // The blend of datasets that are built. Only Megatron-Core keeps files of blends.
  BlendedDataset join(const Blend& blend, const std::vector<std::optional<int64_t>>& asked,
                      std::vector<GptDataset> datasets, const std::vector<double>& weights,
                      int64_t size) {
    const auto start = std::chrono::steady_clock::now();
    std::optional<CachedBlend> built;
    std::string begun_stamp;
    const bool is_kept =
        !options_.cache_path.empty() &&
        (options_.order == OrderKind::kCore || options_.order == OrderKind::kCore010) &&
        datasets.size() <= kMaxMegatronDatasets;
    if (is_kept) {
      std::vector<IndexDescription> descriptions;
      for (size_t i = 0; i < asked.size(); ++i)
        descriptions.push_back(datasets_.describe(blend, i, asked[i], options_.seed));
      const auto description = core_blend_description(descriptions, weights, size);
      if (const MegatronCache* cache = datasets_.megatron_cache()) {
        built = cache->find_blend(description, size, datasets.size());
        if (const auto stamp = cache->find_begun(description, split_))
          begun_stamp = stamp->string();
      }
      if (!built)
        built = options_.maps_caches_only
                    ? find_cached_blend(options_.cache_path, description, split_, size)
                    : open_cached_blend(options_.cache_path, description, split_, weights, size);
    }
    if (!built) built = blends_.find_or_build(weights, size);
    reports_.push_back({.split = split_,
                        .name = "blend",
                        .num_asked = size,
                        .num_samples = size,
                        .is_kept = is_kept,
                        .was_cached = built->was_there,
                        .is_from_megatron = built->is_from_megatron,
                        .begun_stamp = begun_stamp,
                        .seconds = seconds_since(start)});
    check_not_outrun(split_, options_.order, options_.surplus, built->counts, datasets);
    return {std::move(datasets), std::move(built->index)};
  }

  const DatasetOptions& options_;
  const Split split_;
  SplitDatasets datasets_;
  BlendsInMemory& blends_;
  std::vector<IndexReport>& reports_;
};

// The cyclic sampler shuffles all samples that a blend has, and before Megatron-Core its size was
// num_samples in no program (blend_sizes.h).
void check_cyclic(const BlendedDataset& dataset, const DatasetOptions& options) {
  if (!dataset.is_blend() || !rules_of(options.order).precedes_core) return;
  throw std::invalid_argument(
      std::string(
          "--dataloader-type cyclic takes the samples of a blend in an order that depends on its "
          "size, which differs between the programs of --sample-order ") +
      name_of(options.order) +
      ": sums of all samples of its datasets, or of what was asked for; give a single dataset, "
      "--dataloader-type single, or --sample-order core or core-0.10");
}

// From here on training reads the draws of its curriculum.
void draw_by_difficulty(const DatasetOptions& options, int64_t num_draws,
                        TrainingDatasets& datasets) {
  BlendedDataset& train = *datasets.train;
  OpenedCurriculum opened = open_curriculum(
      *options.curriculum,
      {.num_samples = train.num_samples(),
       .num_draws = num_draws,
       .sequence_length = options.sequence_length,
       .cache_path = options.cache_path,
       .maps_caches_only = options.maps_caches_only,
       .check_order = [&](const nlohmann::ordered_json& order, const std::string& of_what) {
         check_same_order(order, train, order_arguments(options), of_what);
       }});
  train.read_drawn(std::move(opened.order));
  datasets.curriculum_summary = std::move(opened.summary);
}

}  // namespace

const BlendedDataset* TrainingDatasets::first(Split split) const {
  if (split == Split::kTrain) return train ? &*train : nullptr;
  const auto& groups = split == Split::kValid ? valid : test;
  return groups.empty() ? nullptr : &groups.front().dataset;
}

TrainingDatasets build_training_datasets(const DatasetOptions& options,
                                         const DatasetTargetSizes& sizes) {
  TrainingDatasets datasets;
  const DatasetReaders readers = open_readers(options, datasets);
  BlendsInMemory blends;
  const auto build = [&](Split split, int64_t num_samples, auto use) {
    if (num_samples == 0) return;
    SplitBuilder builder(options, readers, split, sizes, blends, datasets.reports);
    for (const Blend& blend : options.blends.of(split)) {
      if (split == Split::kTest && !builder.has_share(blend)) continue;
      BlendedDataset dataset = builder.build(blend, num_samples);
      if (options.cyclic && !builder.takes_all()) {
        check_cyclic(dataset, options);
        dataset.read_cyclically(*options.cyclic);
      }
      use(blend, std::move(dataset));
    }
    if (split != Split::kTest && options.blends.of(split).empty()) {
      throw std::invalid_argument(std::string(split_name(split)) +
                                  " requested but no dataset is named for it; give --" +
                                  std::string(short_split_name(split)) + "-data-path" +
                                  (split == Split::kTrain ? "" : " or --eval-iters 0"));
    }
  };
  build(Split::kTrain, sizes.train_samples, [&](const Blend&, BlendedDataset dataset) {
    datasets.train.emplace(std::move(dataset));
    if (options.curriculum) draw_by_difficulty(options, sizes.train_samples, datasets);
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
