// A curriculum by metrics of samples: DeepSpeed's data efficiency sampling, as a pure function of
// its configuration. [DeepSpeed runtime/data_pipeline/data_sampling/data_sampler.py; README.md
// tells in what the draws differ]
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "indexed_dataset/order/batches/difficulty_schedule.h"
#include "indexed_dataset/order/samples/drawn_order.h"

namespace weft {

struct CurriculumMetric {
  std::string name;
  // Prefixes of pairs of files (integer_rows.h); the second one is "" where percentiles need no
  // values.
  std::string index_to_sample_path = {}, index_to_metric_path = {};
  // At difficulty d the metric admits d shares of max_difficulty that the sorted samples are cut
  // into; or the samples with values up to d.
  bool by_percentile = false;
  CurriculumOptions schedule = {};
};

// Reads the JSON object that DeepSpeed's configuration has as "curriculum_metrics": {"NAME": {...},
// ...}. Throws UsageError that names the metric, what is wrong with it and what it
// should have.
std::vector<CurriculumMetric> parse_curriculum_metrics(const std::string& json);

// Everything that decides the draws but the samples and their number.
struct MetricCurriculum {
  std::string metrics;  // JSON
  int64_t seed = 1234;
  // The sizes of batches tell which draw an iteration begins with.
  int64_t global_batch_size = 1;
  std::vector<int64_t> rampup_batch_size = {};
  std::string step_batch_size_schedule = {};
  std::string directory = {};  // from which relative paths of the metrics begin

  bool operator==(const MetricCurriculum&) const = default;
};

struct CurriculumRequest {
  int64_t num_samples = 0, num_draws = 0, sequence_length = 0;
  // Draws are mapped from a file in this folder, and written there first if need be; "": they are
  // made in memory.
  std::string cache_path = {};
  bool maps_caches_only = false;  // what is not in that folder is made in memory
  // Throws if a metric is of other samples; called with "order" of its stamp (metric_files.h) and
  // with the name of its files for the message.
  std::function<void(const nlohmann::ordered_json& order, const std::string& of_what)> check_order;
};

struct OpenedCurriculum {
  std::shared_ptr<const DrawnOrder> order;
  std::string summary;  // what the run draws by, for its log
};

// Makes or maps the draws. Throws UsageError for a configuration that is none, or that
// admits no sample to begin with; std::runtime_error for an index of another number of samples, or
// in which a sample is missing or stands twice; and as IntegerRows, check_index_files() and
// `check_order`.
OpenedCurriculum open_curriculum(const MetricCurriculum& curriculum,
                                 const CurriculumRequest& request);

}  // namespace weft
