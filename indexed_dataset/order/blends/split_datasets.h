// The datasets of one split, each with the index of its samples: mapped from a cache, or built and
// kept there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "indexed_dataset/base/process/on_progress.h"
#include "indexed_dataset/order/blends/index_report.h"
#include "indexed_dataset/order/blends/sample_order.h"
#include "indexed_dataset/order/index_caches/index_cache_writer.h"

namespace weft {

using DatasetReaders = std::unordered_map<std::string, std::shared_ptr<const DatasetReader>>;

// Returns the threads that may build indexes at the same time.
int num_build_threads(const SampleOrder& order);
double seconds_since(std::chrono::steady_clock::time_point start);

// Lap `lap` of a dataset, with its number in the blend. Each lap has an order of its own.
struct WantedIndex {
  size_t at = 0;
  std::optional<int64_t> num_samples = {};  // nothing: one epoch
  int64_t lap = 0;
};

class SplitDatasets {
 public:
  // All references must outlive it. Each index adds its report to `reports`, and is one step of
  // `on_progress`.
  SplitDatasets(const SampleOrder& order, const DatasetReaders& readers, Split split,
                const DatasetTargetSizes& sizes, std::vector<IndexReport>& reports,
                const OnProgress& on_progress);

  // Builds the first lap of each dataset of the blend, with so many samples; nothing means one
  // epoch. Throws as build_training_datasets().
  std::vector<GptDataset> build(const Blend& blend,
                                const std::vector<std::optional<int64_t>>& num_samples);
  // Builds the laps that are wanted, in that order. Throws likewise.
  std::vector<GptDataset> build_laps(const Blend& blend, const std::vector<WantedIndex>& wanted);

  // Returns the description of a dataset's index, which names its files in a cache.
  IndexDescription describe(const Blend& blend, size_t i, std::optional<int64_t> num_samples,
                            int64_t seed) const;
  // Returns the sequences of a dataset that the split has; nothing where its share is 0.
  std::optional<SequenceRange> range_of(const Blend& blend, size_t i) const;
  // Returns the dataset's prefix, for messages.
  std::string where(const Blend& blend, size_t i) const;

 private:
  // Calls use(description, reader, options) for an index; messages of what it throws begin with the
  // dataset's name.
  template <typename Use>
  auto with_name(const Blend& blend, const WantedIndex& wanted, const Use& use) const;
  // Does the part of one of the threads, which takes the next index until none is left. Those that
  // it has written to files are mapped when all of them are complete.
  void build_some(const Blend& blend, const std::vector<WantedIndex>& wanted, int num_threads,
                  std::atomic<size_t>& next, std::vector<std::optional<GptDataset>>& built,
                  std::vector<IndexReport>& reports) const;
  // Returns nothing where the writer has written the index and did not finish it yet.
  std::optional<CachedIndex> open_index(const IndexDescription& description,
                                        const DatasetReader& reader, const GptIndexOptions& options,
                                        std::optional<IndexCacheWriter>& writer) const;
  // Returns the range of a split from which samples are wanted.
  SequenceRange range_with_sequences(const Blend& blend, size_t i) const;
  std::string request() const;
  const std::shared_ptr<const DatasetReader>& reader_of(const Blend& blend, size_t i) const {
    return readers_.at(blend.prefixes[i]);
  }

  const SampleOrder& order_;
  const DatasetReaders& readers_;
  const Split split_;
  const DatasetTargetSizes& sizes_;
  std::vector<IndexReport>& reports_;
  const OnProgress& on_progress_;
};

}  // namespace weft
