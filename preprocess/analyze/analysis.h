// Takes metrics of all samples of a training set, on all cores, so that a killed run goes on: the values of
// a metric are kept in pieces of 2^15 samples under OUTPUT/work.NAME.XXXXXXXX until its files are written. The
// name holds checksums of the order and of the metric's parameters, so that pieces of another analysis are
// not taken up.
//
//   work.NAME.XXXXXXXX/000017            values of 2^15 samples (value_file.h)
//   work.vocab_rarity.XXXXXXXX/counts    how many samples were counted, and how often they hold each token
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
  int64_t num_samples = 0, num_resumed = 0, num_bytes = 0;  // of tokens, this run alone
  bool is_counting = false;                                 // the pass before vocab_rarity
};

// Writes the folders of the metrics and returns their stamps. Calls `report` now and then, which may throw
// to end the analysis. Throws std::runtime_error for a token id below 0 or of 2^22 and more (the counts of
// tokens take memory up to the largest one), and what metrics throw.
std::vector<nlohmann::ordered_json> analyze_samples(
    const BlendedDataset& samples, const AnalysisOptions& options,
    const std::function<void(const AnalysisProgress&)>& report);

// Removes what killed runs have left of a metric: of one that is complete, or of other samples.
void remove_work_of_metric(const std::filesystem::path& output, const std::string& name);

// Removes what killed runs have left of any metric of other samples, or of another order of them. The caller
// holds the lock of the folder, so that no other run works there, and has completed metrics of `order`: a run
// that was started with a wrong option by mistake and stopped costs no work of another one. Returns the number
// of folders that were removed.
int64_t remove_work_of_other_orders(const std::filesystem::path& output,
                                    const nlohmann::ordered_json& order);

}  // namespace weft
