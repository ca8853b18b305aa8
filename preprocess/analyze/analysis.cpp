#include "preprocess/analyze/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// The caller hears of the progress after so many samples: those of 2048 tokens are 128 MiB of
// tokens, a fraction of a second on all cores.
constexpr int64_t kSamplesPerPiece = 1 << 15;
constexpr int64_t kSamplesPerTask = 64;

// The largest id decides how much memory counting takes. The largest vocabularies that are known
// have a million tokens; a larger id is of a damaged file, or of one that holds no tokens.
constexpr uint32_t kMaxTokenId = (1 << 22) - 1;

// Reads samples; each thread needs its own.
class SampleReader {
 public:
  explicit SampleReader(const BlendedDataset& samples)
      : samples_(samples), tokens_(static_cast<size_t>(samples.sequence_length() + 1)) {}

  const MeasuredSample& read(int64_t sample_idx, bool with_parts) {
    const BlendedDataset::Place place = samples_.locate(sample_idx);
    samples_.sample(sample_idx, tokens_.data());
    check_ids(sample_idx, place.dataset_idx);
    parts_.clear();
    if (with_parts) parts_ = samples_.sample_parts(sample_idx);
    sample_ = {.sample_idx = sample_idx,
               .dataset_idx = place.dataset_idx,
               .reader = &samples_.dataset(place.dataset_idx).reader(),
               .tokens = tokens_,
               .parts = parts_};
    return sample_;
  }

 private:
  void check_ids(int64_t sample_idx, int64_t dataset_idx) const {
    uint32_t max = 0;  // negative ids are the largest ones without their sign
    for (const int32_t id : tokens_) max = std::max(max, static_cast<uint32_t>(id));
    if (max <= kMaxTokenId) return;
    throw std::runtime_error(fmt::format(
        "{}: training sample {} holds the token id {}, and ids are from 0 to {}: the dataset is "
        "damaged or holds no token ids (weft-data verify --vocab-size tells more)",
        samples_.dataset(dataset_idx).reader().prefix().string(), sample_idx,
        static_cast<int32_t>(max), kMaxTokenId));
  }

  const BlendedDataset& samples_;
  std::vector<int32_t> tokens_;
  std::vector<SamplePart> parts_;
  MeasuredSample sample_;
};

struct MeasuredMetric {
  const AnalyzedMetric* metric = nullptr;
  std::vector<int64_t> values;  // of all samples, in the order of training
};

class Analysis {
 public:
  Analysis(const BlendedDataset& samples, const AnalysisOptions& options,
           const std::function<void(const AnalysisProgress&)>& report)
      : samples_(samples), options_(options), report_(report) {}

  std::vector<nlohmann::ordered_json> run() {
    for (int64_t d = 0; d < samples_.num_datasets(); ++d)
      samples_.dataset(d).reader().expect_random_reads();
    for (const AnalyzedMetric& metric : options_.metrics) {
      if (metric.request.name == kVocabRarity) rarities_ = rarity_of_tokens(count_tokens());
    }
    for (const AnalyzedMetric& metric : options_.metrics) {
      metrics_.push_back(
          {&metric, std::vector<int64_t>(static_cast<size_t>(samples_.num_samples()))});
    }
    measure();
    std::vector<nlohmann::ordered_json> stamps;
    for (MeasuredMetric& one : metrics_) {
      report_(progress_);
      const MetricRequest& request = one.metric->request;
      stamps.push_back(write_metric_files(options_.output, request, one.values, options_.order));
      crash_point("analyze-stamp");
      one.values = {};
    }
    return stamps;
  }

 private:
  // Calls use(sample, object) for all samples of [first, last), where each thread has the object of
  // its own that make(number of the thread) returns.
  template <typename Make, typename Use>
  void for_each_sample(int64_t first, int64_t last, bool with_parts, const Make& make,
                       const Use& use) {
    std::atomic<int64_t> next{first};
    parallel_for(options_.num_threads, options_.num_threads, [&](int64_t thread) {
      SampleReader reader(samples_);
      auto object = make(thread);
      for (int64_t begin; (begin = next.fetch_add(kSamplesPerTask)) < last;) {
        const int64_t end = std::min(begin + kSamplesPerTask, last);
        for (int64_t i = begin; i < end; ++i)
          samples_.will_need(i, 0, samples_.sequence_length() + 1);
        for (int64_t i = begin; i < end; ++i) use(reader.read(i, with_parts), object);
      }
    });
  }

  // Counts how often the samples hold each token.
  std::vector<int64_t> count_tokens() {
    progress_.is_counting = true;
    std::vector<std::vector<int64_t>> counts(static_cast<size_t>(options_.num_threads));
    for_each_piece([&](int64_t first, int64_t last) {
      for_each_sample(
          first, last, false, [&](int64_t thread) { return &counts[static_cast<size_t>(thread)]; },
          [](const MeasuredSample& sample, std::vector<int64_t>* own) {
            const auto max =
                static_cast<size_t>(*std::max_element(sample.tokens.begin(), sample.tokens.end()));
            if (max >= own->size()) own->resize(max + 1);
            for (const int32_t id : sample.tokens) ++(*own)[static_cast<size_t>(id)];
          });
    });
    progress_.is_counting = false;
    progress_.num_samples = 0;
    std::vector<int64_t> sum;
    for (const std::vector<int64_t>& own : counts) {
      sum.resize(std::max(sum.size(), own.size()));
      for (size_t id = 0; id < own.size(); ++id) sum[id] += own[id];
    }
    return sum;
  }

  void measure() {
    for_each_piece([&](int64_t first, int64_t last) {
      for_each_sample(
          first, last, true,
          [&](int64_t) {
            std::vector<std::unique_ptr<SampleMetric>> metrics;
            for (const MeasuredMetric& one : metrics_)
              metrics.push_back(one.metric->make(rarities_));
            return metrics;
          },
          [&](const MeasuredSample& sample, auto& metrics) {
            for (size_t m = 0; m < metrics.size(); ++m)
              metrics_[m].values[static_cast<size_t>(sample.sample_idx)] =
                  metrics[m]->measure(sample);
          });
    });
  }

  template <typename Use>
  void for_each_piece(const Use& use) {
    for (int64_t first = 0; first < samples_.num_samples(); first += kSamplesPerPiece) {
      report_(progress_);
      const int64_t last = std::min(first + kSamplesPerPiece, samples_.num_samples());
      use(first, last);
      progress_.num_samples += last - first;
      progress_.num_bytes += (last - first) * samples_.sequence_length() * token_bytes();
    }
    report_(progress_);
  }

  int64_t token_bytes() const { return size_bytes(samples_.dataset(0).reader().token_type()); }

  const BlendedDataset& samples_;
  const AnalysisOptions& options_;
  const std::function<void(const AnalysisProgress&)>& report_;
  std::vector<MeasuredMetric> metrics_;
  std::vector<double> rarities_;
  AnalysisProgress progress_;
};

}  // namespace

std::vector<nlohmann::ordered_json> analyze_samples(
    const BlendedDataset& samples, const AnalysisOptions& options,
    const std::function<void(const AnalysisProgress&)>& report) {
  return Analysis(samples, options, report).run();
}

}  // namespace weft
