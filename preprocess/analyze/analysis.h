// Takes metrics of all samples of a training set, on all cores. The values lie in memory until they
// are written: a run that is killed leaves no values and begins anew.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "indexed_dataset/order/blends/blended_dataset.h"
#include "indexed_dataset/order/curriculum/metric_files.h"
#include "preprocess/analyze/sample_metrics.h"

namespace weft {

struct AnalyzedMetric {
  MetricRequest request;
  // Makes a metric for one thread; the rarities of tokens live as long as the metrics.
  std::function<std::unique_ptr<SampleMetric>(const std::vector<double>& rarities)> make;
};

struct AnalysisOptions {
  std::filesystem::path output;
  std::vector<AnalyzedMetric> metrics;
  nlohmann::ordered_json order;  // order_description.h
  int num_threads = 1;
};

// Tells what an analysis has done so far.
struct AnalysisProgress {
  int64_t num_samples = 0;
  int64_t num_bytes = 0;     // of the tokens that were read, in both passes
  bool is_counting = false;  // the pass before vocab_rarity
};

// Writes the folders of the metrics and returns their stamps. Calls `report` now and then, which
// may throw to end the analysis. Throws std::runtime_error for a token id below 0 or of 2^22 and
// more (the counts of tokens take memory up to the largest one), and what metrics throw.
std::vector<nlohmann::ordered_json> analyze_samples(
    const BlendedDataset& samples, const AnalysisOptions& options,
    const std::function<void(const AnalysisProgress&)>& report);

}  // namespace weft
