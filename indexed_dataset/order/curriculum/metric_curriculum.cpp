#include "indexed_dataset/order/curriculum/metric_curriculum.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/partition_point.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "indexed_dataset/order/batches/batch_size_plan.h"
#include "indexed_dataset/order/curriculum/integer_rows.h"
#include "indexed_dataset/order/curriculum/metric_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
constexpr std::chrono::minutes kPatience{10};

// A metric with its files and the difficulties of its schedule.
struct OpenMetric {
  CurriculumMetric metric;
  IntegerRows samples;                // rows by ascending value
  std::optional<IntegerRows> values;  // the value of each row
  std::vector<DifficultyStretch> stretches;
  bool has_stamp = false;

  // The number of samples, from the lowest value on, that are admitted at a difficulty.
  int64_t num_admitted(int64_t difficulty) const {
    if (metric.by_percentile) {
      const int64_t parts = metric.schedule.max_difficulty;
      return difficulty >= parts ? samples.num_values() : samples.num_values() / parts * difficulty;
    }
    return samples.row_begin(partition_point(
        0, values->num_rows(), [&](int64_t row) { return values->value(row) <= difficulty; }));
  }
};

void check_rows(const OpenMetric& metric, int64_t num_samples) {
  const std::string path = metric.samples.prefix().string();
  if (metric.samples.num_values() != num_samples) {
    throw std::runtime_error(fmt::format(
        "{}: it is an index of {} samples, and the training set has {}: was it made with another "
        "--split, --seq-length or --train-samples?",
        path, metric.samples.num_values(), num_samples));
  }
  if (!metric.values) return;
  const IntegerRows& values = *metric.values;
  bool ascends =
      values.num_rows() == metric.samples.num_rows() && values.num_values() == values.num_rows();
  for (int64_t row = 1; row < values.num_rows() && ascends; ++row)
    ascends = values.value(row - 1) < values.value(row);
  if (!ascends)
    throw std::runtime_error(values.prefix().string() +
                             ": its rows are not one ascending value for each row of " + path);
}

OpenMetric open_metric(const CurriculumMetric& metric, const std::string& directory,
                       const CurriculumRequest& request) {
  const fs::path base = directory;
  const fs::path samples = base / metric.index_to_sample_path;
  OpenMetric open{.metric = metric,
                  .samples = IntegerRows(samples),
                  .values = std::nullopt,
                  .stretches = difficulty_stretches(metric.schedule, metric.name + ": ")};
  if (!metric.by_percentile) open.values.emplace(base / metric.index_to_metric_path);
  if (const auto stamp = find_stamp_of_index(samples)) {
    check_index_files(samples, *stamp);
    if (open.values) check_index_files(open.values->prefix(), *stamp);
    if (request.check_order) request.check_order((*stamp)["order"], samples.string());
    open.has_stamp = true;
  }
  check_rows(open, request.num_samples);
  return open;
}

// The draw with which an iteration begins; nothing if the number does not fit.
class FirstDraws {
 public:
  explicit FirstDraws(const MetricCurriculum& curriculum, int64_t sequence_length)
      : plan_(BatchSizePlan::of_options(curriculum.step_batch_size_schedule,
                                        curriculum.global_batch_size, curriculum.rampup_batch_size,
                                        sequence_length)) {}
  // Iterations are asked for in ascending order.
  std::optional<int64_t> of(int64_t iteration) {
    const auto next = plan_.consumed_after(iteration - iteration_, consumed_);
    if (!next) return std::nullopt;
    iteration_ = iteration;
    return consumed_ = *next;
  }

 private:
  BatchSizePlan plan_;
  int64_t iteration_ = 1, consumed_ = 0;
};

// The iterations at which a metric admits more, with the draws with which they begin, up to the end
// of the run.
std::map<int64_t, int64_t> first_draws_of(const std::vector<OpenMetric>& metrics,
                                          const MetricCurriculum& curriculum,
                                          const CurriculumRequest& request) {
  std::map<int64_t, int64_t> first_draws;
  for (const OpenMetric& metric : metrics) {
    for (const DifficultyStretch& stretch : metric.stretches)
      first_draws.emplace(stretch.first_iteration, 0);
  }
  FirstDraws draws(curriculum, request.sequence_length);
  for (auto at = first_draws.begin(); at != first_draws.end(); ++at) {
    const auto first = draws.of(at->first);
    if (!first || (*first >= request.num_draws && *first > 0)) {
      first_draws.erase(at, first_draws.end());
      break;
    }
    at->second = *first;
  }
  return first_draws;
}

// Notes for each sample the last stage at which one of the metrics admits it.
void note_admissions(const OpenMetric& metric, const std::map<int64_t, int64_t>& first_draws,
                     std::vector<uint32_t>& stage_of) {
  const auto num_samples = std::ssize(stage_of);
  std::vector<bool> seen(stage_of.size());
  int64_t at = 0;
  const auto note = [&](int64_t end, uint32_t stage) {
    for (; at < end; ++at) {
      const int64_t sample = metric.samples.value(at);
      if (sample < 0 || sample >= num_samples || seen[static_cast<size_t>(sample)]) {
        throw std::runtime_error(fmt::format(
            "{}: sample {} stands there {}", metric.samples.prefix().string(), sample,
            sample < 0 || sample >= num_samples ? fmt::format("but there are {}", num_samples)
                                                : "twice"));
      }
      seen[static_cast<size_t>(sample)] = true;
      uint32_t& of_sample = stage_of[static_cast<size_t>(sample)];
      of_sample = std::max(of_sample, stage);
    }
  };
  uint32_t stage = 0;
  auto iteration = first_draws.begin();
  for (const DifficultyStretch& stretch : metric.stretches) {
    for (; iteration != first_draws.end() && iteration->first < stretch.first_iteration;
         ++iteration)
      ++stage;
    if (iteration == first_draws.end()) break;
    note(metric.num_admitted(stretch.difficulty), stage);
  }
  note(num_samples, kNever);
}

Draws make_draws(const std::vector<OpenMetric>& metrics,
                 const std::map<int64_t, int64_t>& first_draws, uint64_t seed,
                 const CurriculumRequest& request) {
  std::vector<uint32_t> stage_of(static_cast<size_t>(request.num_samples));
  for (const OpenMetric& metric : metrics) note_admissions(metric, first_draws, stage_of);
  // Samples in the order of admission; those of one stage by their numbers.
  std::vector<int64_t> ends(first_draws.size());
  for (const uint32_t stage : stage_of) {
    if (stage != kNever) ++ends[stage];
  }
  int64_t sum = 0;
  for (int64_t& end : ends) end = sum += end;
  if (ends.empty() || ends.front() == 0) {
    std::string names;
    for (const OpenMetric& metric : metrics)
      names +=
          (names.empty() ? "" : ", ") + fmt::format("{} with min_difficulty {}", metric.metric.name,
                                                    metric.metric.schedule.min_difficulty);
    throw UsageError(fmt::format(
        "the curriculum admits no sample at iteration 1 ({}): raise min_difficulty, or make "
        "it a multiple of difficulty_step",
        names));
  }
  std::vector<PoolStage> stages;
  size_t stage_idx = 0;
  for (const auto& [iteration, first_draw] : first_draws)
    stages.push_back({.first_draw = first_draw, .pool_size = ends[stage_idx++]});
  std::vector<int64_t> admitted(static_cast<size_t>(sum)), next(ends.size());
  for (size_t i = 1; i < ends.size(); ++i) next[i] = ends[i - 1];
  for (size_t sample = 0; sample < stage_of.size(); ++sample) {
    if (stage_of[sample] != kNever)
      admitted[static_cast<size_t>(next[stage_of[sample]]++)] = static_cast<int64_t>(sample);
  }
  stage_of = {};
  return draw_samples(admitted, stages, seed, request.num_draws);
}

// A name for the draws that follow from these files and numbers.
std::string cache_name(const std::vector<OpenMetric>& metrics,
                       const std::map<int64_t, int64_t>& first_draws, int64_t seed,
                       const CurriculumRequest& request) {
  Json all = {{"version", 1},
              {"seed", seed},
              {"samples", request.num_samples},
              {"draws", request.num_draws}};
  for (const OpenMetric& metric : metrics) {
    Json one = {{"parts", metric.metric.by_percentile ? metric.metric.schedule.max_difficulty : 0}};
    for (const char* suffix : {".bin", ".idx"}) {
      one["files"].push_back(xxh3_of_file(metric.samples.prefix().string() + suffix));
      if (metric.values)
        one["files"].push_back(xxh3_of_file(metric.values->prefix().string() + suffix));
    }
    for (const DifficultyStretch& stretch : metric.stretches) {
      const auto first_draw = first_draws.find(stretch.first_iteration);
      if (first_draw != first_draws.end())
        one["stages"].push_back({first_draw->second, stretch.difficulty});
    }
    all["metrics"].push_back(std::move(one));
  }
  const std::string text = all.dump();
  return fmt::format("{:016x}-curriculum_draws.npy", XXH3_64bits(text.data(), text.size()));
}

// Maps draws that are there whole, or returns null. A file is renamed into place when it is
// complete.
std::shared_ptr<const DrawnOrder> find_draws(const fs::path& path,
                                             const CurriculumRequest& request) {
  if (!fs::exists(path)) return nullptr;
  const auto file = std::make_shared<const NpyArray>(path);
  if (file->shape() != std::vector<int64_t>{request.num_draws}) return nullptr;
  if (file->holds<uint32_t>())
    return std::make_shared<const DrawnOrder>(file->values<uint32_t>(), file);
  if (file->holds<int64_t>())
    return std::make_shared<const DrawnOrder>(file->values<int64_t>(), file);
  return nullptr;
}

DrawsView view_of(const Draws& draws) {
  return std::visit([](const auto& values) -> DrawsView { return std::span(values); }, draws);
}

std::string summary_of(const std::vector<OpenMetric>& metrics) {
  std::string text;
  for (const OpenMetric& metric : metrics) {
    const std::vector<DifficultyStretch>& stretches = metric.stretches;
    text += fmt::format(
        "{}{} by {}, {} at iteration 1 to {} from iteration {} on{}", text.empty() ? "" : "; ",
        metric.metric.name, metric.metric.by_percentile ? "percentile" : "value",
        stretches.front().difficulty, stretches.back().difficulty, stretches.back().first_iteration,
        metric.has_stamp ? "" : " (no stamp tells of which samples its index is)");
  }
  return text;
}

}  // namespace

OpenedCurriculum open_curriculum(const MetricCurriculum& curriculum,
                                 const CurriculumRequest& request) {
  std::vector<OpenMetric> metrics;
  for (const CurriculumMetric& metric : parse_curriculum_metrics(curriculum.metrics))
    metrics.push_back(open_metric(metric, curriculum.directory, request));
  const std::map<int64_t, int64_t> first_draws = first_draws_of(metrics, curriculum, request);
  const std::string summary = summary_of(metrics);
  const auto seed = static_cast<uint64_t>(curriculum.seed);
  const auto make = [&] { return make_draws(metrics, first_draws, seed, request); };
  const fs::path folder = request.cache_path;
  const fs::path file = folder / cache_name(metrics, first_draws, curriculum.seed, request);
  if (!folder.empty()) {
    if (auto found = find_draws(file, request)) return {std::move(found), summary};
  }
  if (folder.empty() || request.maps_caches_only) {
    const auto draws = std::make_shared<const Draws>(make());
    return {std::make_shared<const DrawnOrder>(view_of(*draws), draws), summary};
  }
  fs::create_directories(folder);
  const LockFile lock(file.string() + ".lock", kPatience);
  if (auto found = find_draws(file, request)) return {std::move(found), summary};
  std::visit([&](auto draws) { write_npy(file, draws); }, view_of(make()));
  auto written = find_draws(file, request);
  if (!written) throw std::runtime_error(file.string() + ": it was just written and is not there");
  return {std::move(written), summary};
}

}  // namespace weft
