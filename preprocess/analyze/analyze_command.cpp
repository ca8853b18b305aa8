// weft-data analyze takes metrics of all samples of a training set, by which a curriculum draws
// them.
#include "preprocess/analyze/analyze_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/lock_file.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/order/blends/order_description.h"
#include "indexed_dataset/run_record/order_options.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/analyze/analysis.h"
#include "preprocess/analyze/score_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class AnalyzeCommand final : public Command {
 public:
  AnalyzeCommand()
      : Command("analyze", "take metrics of all samples, for a curriculum by difficulty",
                "weft-data analyze --data-path my_text_document --seq-length 1024 "
                "--train-samples 100_000 --metric vocab_rarity --output metrics") {}

  void declare(OptionSet& options) override {
    order_.order().eval_iters = 0;  // only the training set is analyzed
    order_.declare(options);
    options.texts("--metric", metrics_,
                  "one or more of vocab_rarity, document_length, repeated_tokens, compressed_size");
    options.text("--sample-scores", sample_scores_,
                 "a file of your own scores: line i is of the i-th sample of training");
    options.texts(
        "--document-scores", document_scores_,
        "the same for the documents of the dataset, of which samples get the mean; one file "
        "for each dataset of a blend");
    options.text("--score-name", score_name_, "the name of these scores as a metric");
    options.integer("--score-scale", score_scale_,
                    "scores are multiplied by this and rounded to the nearest integer", 1,
                    1'000'000'000);
    options.text("--output", output_, "folder of the metrics' files; made if it is not there");
    options.flag("--overwrite", overwrite_, "replace metrics of another analysis in that folder");
    options.integer("--threads", num_threads_, "threads (default: as many as there are cores)", 1,
                    1024);
  }

  void validate(OptionSet& options) const override {
    order_.validate_values(options);
    if (order_.order().paths.empty()) options.problem("--data-path is required");
    order_.validate(options, false);
    if (output_.empty()) options.problem("--output is required");
    if (metrics_.empty() && !has_scores())
      options.problem("--metric is required, or --sample-scores or --document-scores");
    for (const std::string& name : metrics_) options.check([&] { make_sample_metric(name, {}); });
    if (std::set<std::string>(metrics_.begin(), metrics_.end()).size() != metrics_.size())
      options.problem("--metric: one of them is named twice");
    if (!sample_scores_.empty() && !document_scores_.empty())
      options.problem("--sample-scores and --document-scores: give one of them");
    if (!order_.order().paths.blend_schedule.empty())
      options.problem(
          "--blend-schedule changes what is drawn during a run, and so does a curriculum by "
          "difficulty: leave one of them out");
    const auto is_plain = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (!std::all_of(score_name_.begin(), score_name_.end(), is_plain) || score_name_.empty() ||
        std::find(std::begin(kMetricNames), std::end(kMetricNames), score_name_) !=
            std::end(kMetricNames))
      options.problem("--score-name: give letters, digits and _, and not the name of a metric");
  }

  int run(const OptionSet&) override {
    install_stop_signals();
    const auto start = std::chrono::steady_clock::now();
    const SampleOrder order = order_.resolved();
    TrainingDatasets datasets = build_training_datasets(order, target_sizes_of(order, 0));
    const BlendedDataset& samples = *datasets.train;
    AnalysisOptions analysis{.output = output_,
                             .metrics = {},
                             .order = describe_order(samples, order),
                             .num_threads = num_threads_.value_or(static_cast<int>(
                                 std::max(1U, std::thread::hardware_concurrency())))};
    fs::create_directories(analysis.output);
    const LockFile lock(analysis.output / "analyze.lock");
    std::vector<AnalyzedMetric> metrics = make_metrics(samples);
    for (AnalyzedMetric& metric : metrics) {
      if (is_there(metric.request, samples, order)) {
        fmt::print("{}: it was there already\n", metric.request.name);
      } else {
        analysis.metrics.push_back(std::move(metric));
      }
    }
    if (analysis.metrics.empty()) return 0;
    AnalysisProgress progress;
    const std::vector<Json> stamps =
        analyze_samples(samples, analysis, [&](const AnalysisProgress& now) {
          progress = now;
          show(now, samples.num_samples());
          if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
        });
    line_.clear();
    for (const Json& stamp : stamps) print(stamp);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fmt::print("{} in {:.2f} s, {:.0f} MB of tokens read at {:.0f} MB/s\n",
               counted(samples.num_samples(), "sample"), seconds,
               static_cast<double>(progress.num_bytes) / 1e6,
               static_cast<double>(progress.num_bytes) / 1e6 / std::max(seconds, 1e-9));
    return 0;
  }

 private:
  bool has_scores() const { return !sample_scores_.empty() || !document_scores_.empty(); }

  std::vector<AnalyzedMetric> make_metrics(const BlendedDataset& samples) {
    std::vector<AnalyzedMetric> metrics;
    for (const std::string& name : metrics_) {
      metrics.push_back(
          {.request = {.name = name}, .make = [name](const std::vector<double>& rarities) {
             return make_sample_metric(name, rarities);
           }});
    }
    if (!has_scores()) return metrics;
    AnalyzedMetric scores{.request = {.name = score_name_}, .make = {}};
    scores.request.parameters = {{"scale", score_scale_}};
    if (!sample_scores_.empty()) {
      scores.request.parameters["sample_scores_xxh3"] = xxh3_of_file(sample_scores_);
      scores_.push_back(read_scores(sample_scores_, samples.num_samples(), score_scale_, "sample"));
      scores.make = [this](const auto&) { return make_sample_scores(scores_[0]); };
    } else {
      read_document_scores(samples, scores.request);
      scores.make = [this](const auto&) { return make_document_scores(scores_); };
    }
    metrics.push_back(std::move(scores));
    return metrics;
  }

  void read_document_scores(const BlendedDataset& samples, MetricRequest& request) {
    if (std::ssize(document_scores_) != samples.num_datasets())
      throw UsageError(fmt::format(
          "--document-scores names {}, and there are {}: give one for each, in their order",
          counted(std::ssize(document_scores_), "file"),
          counted(samples.num_datasets(), "dataset")));
    for (int64_t d = 0; d < samples.num_datasets(); ++d) {
      const std::string& file = document_scores_[static_cast<size_t>(d)];
      const DatasetReader& reader = samples.dataset(d).reader();
      const int64_t num_documents =
          reader.num_documents() > 0 ? reader.num_documents() : reader.num_sequences();
      request.parameters["document_scores_xxh3"].push_back(xxh3_of_file(file));
      scores_.push_back(read_scores(file, num_documents, score_scale_, "document"));
    }
  }

  // Returns true if the metric has been taken of these samples before, and its files are whole.
  // Throws if it has been of others, unless these may be replaced.
  bool is_there(const MetricRequest& metric, const BlendedDataset& samples,
                const SampleOrder& order) const {
    std::optional<Json> stamp;
    try {
      stamp = find_metric_stamp(output_, metric.name);
      if (!stamp) return false;
      const std::string folder = (fs::path(output_) / metric.name).string();
      check_same_order((*stamp)["order"], samples, order, folder);
      if ((*stamp)["metric"] != metric.name)
        throw std::runtime_error(folder + " has the stamp of another metric");
      if (stamp->value("parameters", Json()) != metric.parameters)
        throw std::runtime_error(folder + " was made of other scores");
    } catch (const std::system_error&) {
      throw;
    } catch (const std::runtime_error& error) {
      if (overwrite_) return false;
      throw UsageError(std::string(error.what()) +
                       "; or give --overwrite to replace it, or another --output");
    }
    const std::optional<std::string> damage = find_damaged_file(output_, *stamp);
    if (damage) print_message(fmt::format("{}: {}, so it is measured anew", metric.name, *damage));
    return !damage;
  }

  // Counting and analyzing are two walks over the samples, each with a speed of its own.
  void show(const AnalysisProgress& now, int64_t num_samples) {
    if (now.is_counting != was_counting_) {
      was_counting_ = now.is_counting;
      walk_begin_ = std::chrono::steady_clock::now();
    }
    if (!line_.is_due()) return;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - walk_begin_).count();
    const auto done = static_cast<double>(now.num_samples);
    line_.show((now.is_counting ? "counted " : "analyzed ") +
               progress_fields(done, static_cast<double>(num_samples),
                               done / std::max(seconds, 1e-9), "samples") +
               " | " + grouped(now.num_samples) + " of " + grouped(num_samples));
  }

  static void print(const Json& stamp) {
    const Json& percentiles = stamp["percentiles"];
    fmt::print("{}: {} distinct values; percentiles 0: {}, 25: {}, 50: {}, 75: {}, 100: {}\n",
               stamp["metric"].get<std::string>(), stamp["distinct_values"].get<int64_t>(),
               percentiles[0].get<int64_t>(), percentiles[5].get<int64_t>(),
               percentiles[10].get<int64_t>(), percentiles[15].get<int64_t>(),
               percentiles[20].get<int64_t>());
  }

  OrderOptions order_;
  std::vector<std::string> metrics_, document_scores_;
  std::string sample_scores_, score_name_ = "score", output_;
  int64_t score_scale_ = 1;
  bool overwrite_ = false;
  std::optional<int> num_threads_;
  std::vector<std::vector<int64_t>> scores_;
  LiveLine line_;
  bool was_counting_ = true;
  std::chrono::steady_clock::time_point walk_begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<Command> make_analyze_command() { return std::make_unique<AnalyzeCommand>(); }

}  // namespace weft
