// Takes metrics of all samples of a training set, on all cores, so that a killed run goes on: values are
// kept in pieces of 2^15 samples under OUTPUT/work.XXXXXXXX until all are there. The name holds a checksum of
// the order and of the metrics, so that pieces of another analysis are not taken up.
//
//   work.XXXXXXXX/counts.npy       how often each token occurs in all samples, for vocab_rarity
//   work.XXXXXXXX/000017.npy       (metrics, samples) values, int64
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/sample_metrics.h"
#include "indexed_dataset/blends/blended_dataset.h"
#include "indexed_dataset/curriculum/metric_files.h"

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
  int64_t num_samples = 0, num_resumed = 0, num_bytes = 0;  // of tokens, this run alone
  bool is_counting = false;                                 // the pass before vocab_rarity
};

// Writes the folders of the metrics and returns their stamps. Calls `report` now and then, which may throw
// to end the analysis. Throws std::runtime_error for a token id below 0, and what metrics throw.
std::vector<nlohmann::ordered_json> analyze_samples(
    const BlendedDataset& samples, const AnalysisOptions& options,
    const std::function<void(const AnalysisProgress&)>& report);

}  // namespace weft
