#include "indexed_dataset/order/blends/split_datasets.h"

#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {

int num_build_threads(const SampleOrder& order) {
  if (order.num_threads > 0) return order.num_threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

SplitDatasets::SplitDatasets(const SampleOrder& order, const DatasetReaders& readers, Split split,
                             const DatasetTargetSizes& sizes, std::vector<IndexReport>& reports,
                             const OnProgress& on_progress)
    : order_(order),
      readers_(readers),
      split_(split),
      sizes_(sizes),
      reports_(reports),
      on_progress_(on_progress) {}

std::vector<GptDataset> SplitDatasets::build(
    const Blend& blend, const std::vector<std::optional<int64_t>>& num_samples) {
  std::vector<WantedIndex> wanted;
  for (size_t i = 0; i < num_samples.size(); ++i)
    wanted.push_back({.at = i, .num_samples = num_samples[i]});
  return build_laps(blend, wanted);
}

std::vector<GptDataset> SplitDatasets::build_laps(const Blend& blend,
                                                  const std::vector<WantedIndex>& wanted) {
  std::vector<std::optional<GptDataset>> built(wanted.size());
  std::vector<IndexReport> reports(built.size());
  const int num_threads =
      static_cast<int>(std::min(std::ssize(built), int64_t{num_build_threads(order_)}));
  std::atomic<size_t> next{0};
  parallel_for(num_threads, num_threads, [&](int64_t) {
    try {
      build_some(blend, wanted, num_threads, next, built, reports);
    } catch (...) {
      next = built.size();
      throw;
    }
  });
  reports_.insert(reports_.end(), reports.begin(), reports.end());
  std::vector<GptDataset> datasets;
  datasets.reserve(built.size());
  for (auto& dataset : built) datasets.push_back(std::move(*dataset));
  return datasets;
}

template <typename Use>
auto SplitDatasets::with_name(const Blend& blend, const WantedIndex& wanted, const Use& use) const {
  const int64_t seed = (order_.seed + wanted.lap) & UINT32_MAX;
  const GptIndexOptions options{.range = range_with_sequences(blend, wanted.at),
                                .num_samples = wanted.num_samples,
                                .sequence_length = order_.seq_length,
                                .seed = seed,
                                .order = order_.sample_order};
  try {
    return use(describe(blend, wanted.at, wanted.num_samples, seed), *reader_of(blend, wanted.at),
               options);
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(where(blend, wanted.at) + ": " + error.what());
  }
}

void SplitDatasets::build_some(const Blend& blend, const std::vector<WantedIndex>& wanted,
                               int num_threads, std::atomic<size_t>& next,
                               std::vector<std::optional<GptDataset>>& built,
                               std::vector<IndexReport>& reports) const {
  std::optional<IndexCacheWriter> writer;
  if (!order_.cache_path.empty() && !order_.maps_caches_only)
    writer.emplace(order_.cache_path, num_threads);
  std::vector<size_t> written;
  const auto note = [&](size_t i, CachedIndex index) {
    const std::shared_ptr<const DatasetReader>& reader = reader_of(blend, wanted[i].at);
    IndexReport& report = reports[i];
    report.split = split_;
    report.name = where(blend, wanted[i].at);
    report.num_asked = wanted[i].num_samples.value_or(-1);
    report.num_samples = index.index.view.plan.num_samples;
    report.num_epochs = index.index.view.plan.num_epochs;
    report.was_cached = index.was_there;
    report.is_from_megatron = index.is_from_megatron;
    built[i].emplace(reader, order_.seq_length, std::move(index.index));
  };
  for (size_t i; (i = next++) < wanted.size();) {
    const auto start = std::chrono::steady_clock::now();
    auto index =
        with_name(blend, wanted[i], [&](const auto&... of) { return open_index(of..., writer); });
    if (index) {
      note(i, std::move(*index));
    } else {
      written.push_back(i);
    }
    reports[i].seconds = seconds_since(start);
    if (on_progress_)
      on_progress_("indexed for " + std::string(split_name(split_)), 1, std::ssize(wanted));
  }
  if (written.empty()) return;
  writer->finish();
  for (const size_t i : written) {
    note(i, with_name(blend, wanted[i],
                      [&](const auto&... of) { return writer->map_written(of...); }));
  }
}

std::optional<CachedIndex> SplitDatasets::open_index(
    const IndexDescription& description, const DatasetReader& reader,
    const GptIndexOptions& options, std::optional<IndexCacheWriter>& writer) const {
  const std::string& folder = order_.cache_path;
  if (order_.takes_megatron_caches && !folder.empty()) {
    if (auto found = find_megatron_index(folder, description, reader, options)) return found;
  }
  if (writer) return writer->find_or_write(description, reader, options);
  if (!folder.empty()) {
    if (auto found = find_cached_index(folder, description, reader, options)) return found;
  }
  return CachedIndex{hold(build_gpt_index(reader.lengths(), options))};
}

IndexDescription SplitDatasets::describe(const Blend& blend, size_t i,
                                         std::optional<int64_t> num_samples, int64_t seed) const {
  IndexDescription description{
      .order = order_.sample_order,
      .dataset_path = blend.spelling(i),
      .num_samples = num_samples,
      .split = split_,
      .group = blend.name,
      .seed = seed,
      .sequence_length = order_.seq_length,
      .split_string = {},
      .tokenizer = order_.tokenizer_text.empty()
                       ? tokenizer_description(order_.tokenizer)
                       : nlohmann::ordered_json::parse(order_.tokenizer_text)};
  if (!order_.blends.has_own_paths) description.split_string = order_.split;
  if (!blend.shares.empty()) description.share = blend.shares[i];
  if (blend.prefixes.size() > 1 || !blend.weights.empty()) description.place_in_blend = i;
  return description;
}

std::optional<SequenceRange> SplitDatasets::range_of(const Blend& blend, size_t i) const {
  const int64_t num_sequences = readers_.at(blend.prefixes[i])->num_sequences();
  if (!blend.shares.empty()) {
    const auto [begin, end] = blend.shares[i];
    return range_of_share(begin, end, num_sequences);
  }
  return split_ranges(order_.split, num_sequences,
                      order_.sample_order)[static_cast<size_t>(split_)];
}

SequenceRange SplitDatasets::range_with_sequences(const Blend& blend, size_t i) const {
  const std::optional<SequenceRange> range = range_of(blend, i);
  if (range && range->begin < range->end) return *range;
  const DatasetReader& reader = *readers_.at(blend.prefixes[i]);
  const std::string share = range
                                ? "too little of the " + std::to_string(reader.num_sequences()) +
                                      " documents in " + reader.prefix().string() + " for even one"
                                : "0 %";
  throw UsageError(request() + " but " +
                   (order_.blends.has_own_paths ? "its data path" : "--split " + order_.split) +
                   " gives it " + share +
                   (split_ == Split::kTrain ? "" : "; change --split or --eval-iters"));
}

std::string SplitDatasets::request() const {
  return std::string(split_name(split_)) + " requested (" +
         (split_ == Split::kTrain ? std::to_string(sizes_.train_samples) + " samples"
                                  : "--eval-iters " + std::to_string(sizes_.eval_iters)) +
         ")";
}

std::string SplitDatasets::where(const Blend& blend, size_t i) const {
  return reader_of(blend, i)->prefix().string();
}

}  // namespace weft
