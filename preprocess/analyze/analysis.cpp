#include "preprocess/analyze/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/analyze/value_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// 2^15 samples of 2048 tokens are 128 MiB of tokens: a fraction of a second on all cores, and a
// hundred million samples make 3,000 files.
constexpr int64_t kSamplesPerPiece = 1 << 15;
constexpr int64_t kSamplesPerTask = 64;

// The largest id decides how much memory counting takes. The largest vocabularies that are known have a million
// tokens; a larger id is of a damaged file, or of one that holds no tokens.
constexpr uint32_t kMaxTokenId = (1 << 22) - 1;

std::string checksum_of(const nlohmann::ordered_json& json) {
  const std::string text = json.dump();
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

fs::path work_folder(const AnalysisOptions& options, const MetricRequest& metric) {
  return options.output / fmt::format("work.{}.{}{}", metric.name, checksum_of(options.order),
                                      checksum_of(metric.parameters));
}

// Returns true for the names that work_folder() makes. Earlier versions made one checksum of order and parameters
// together, with 16 digits.
bool is_work_folder(const std::string& name) {
  const size_t end = name.rfind('.');
  const std::string checksum = name.substr(end == std::string::npos ? name.size() : end + 1);
  return name.starts_with("work.") && end > 5 && (checksum.size() == 16 || checksum.size() == 32) &&
         checksum.find_first_not_of("0123456789abcdef") == std::string::npos;
}

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

// This is a metric whose values are taken, with the folder where they lie meanwhile.
struct WorkedMetric {
  const AnalyzedMetric* metric = nullptr;
  fs::path work;
  std::vector<int64_t> values;
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
      metrics_.push_back({&metric, work_folder(options_, metric.request), {}});
      fs::create_directories(metrics_.back().work);
    }
    for (const WorkedMetric& one : metrics_) {
      if (one.metric->request.name == kVocabRarity)
        rarities_ = rarity_of_tokens(count_tokens(one.work / "counts"));
    }
    for (WorkedMetric& one : metrics_)
      one.values.resize(static_cast<size_t>(samples_.num_samples()));
    measure();
    std::vector<nlohmann::ordered_json> stamps;
    for (WorkedMetric& one : metrics_) {
      report_(progress_);
      const MetricRequest& request = one.metric->request;
      stamps.push_back(write_metric_files(options_.output, request, one.values, options_.order));
      crash_point("analyze-stamp");
      one.values = {};
      remove_work_of_metric(options_.output, request.name);
    }
    return stamps;
  }

 private:
  // Calls use(sample, object) for all samples of [first, last), where each thread has the object of its own
  // that make(number of the thread) returns.
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

  // The file holds how many samples were counted, and how often they hold each token.
  std::vector<int64_t> count_tokens(const fs::path& file) {
    std::vector<int64_t> counted = find_value_file(file).value_or(std::vector<int64_t>{0});
    if (counted.empty()) counted = {0};
    const int64_t resumed = counted.front();
    progress_.is_counting = true;
    progress_.num_resumed = resumed;
    std::vector<std::vector<int64_t>> counts(static_cast<size_t>(options_.num_threads));
    for_each_piece([&](int64_t first, int64_t last) {
      if (first < resumed) return;
      for_each_sample(
          first, last, false, [&](int64_t thread) { return &counts[static_cast<size_t>(thread)]; },
          [](const MeasuredSample& sample, std::vector<int64_t>* own) {
            const auto max =
                static_cast<size_t>(*std::max_element(sample.tokens.begin(), sample.tokens.end()));
            if (max >= own->size()) own->resize(max + 1);
            for (const int32_t id : sample.tokens) ++(*own)[static_cast<size_t>(id)];
          });
      counted.front() = last;
      for (std::vector<int64_t>& own : counts) {
        counted.resize(std::max(counted.size(), own.size() + 1));
        for (size_t id = 0; id < own.size(); ++id) counted[id + 1] += std::exchange(own[id], 0);
      }
      write_value_file(file, counted);
      crash_point("analyze-count");
      note(last - first);
    });
    progress_.is_counting = false;
    progress_.num_samples = progress_.num_resumed = 0;
    counted.erase(counted.begin());
    return counted;
  }

  void measure() {
    int64_t piece_idx = 0;
    for_each_piece([&](int64_t first, int64_t last) {
      const std::string name = fmt::format("{:06}", piece_idx++);
      std::vector<WorkedMetric*> missing;
      for (WorkedMetric& one : metrics_) {
        const auto found = find_value_file(one.work / name);
        if (found && std::ssize(*found) == last - first) {
          std::copy(found->begin(), found->end(), one.values.begin() + first);
        } else {
          missing.push_back(&one);
        }
      }
      if (missing.empty()) {
        progress_.num_resumed += last - first;
        return;
      }
      measure_piece(first, last, missing);
      for (const WorkedMetric* one : missing) {
        write_value_file(one->work / name, std::span(one->values)
                                               .subspan(static_cast<size_t>(first),
                                                        static_cast<size_t>(last - first)));
      }
      crash_point("analyze-piece");
      note(last - first);
    });
  }

  void measure_piece(int64_t first, int64_t last, const std::vector<WorkedMetric*>& missing) {
    for_each_sample(
        first, last, true,
        [&](int64_t) {
          std::vector<std::unique_ptr<SampleMetric>> metrics;
          for (const WorkedMetric* one : missing) metrics.push_back(one->metric->make(rarities_));
          return metrics;
        },
        [&](const MeasuredSample& sample, auto& metrics) {
          for (size_t m = 0; m < metrics.size(); ++m)
            missing[m]->values[static_cast<size_t>(sample.sample_idx)] =
                metrics[m]->measure(sample);
        });
  }

  template <typename Use>
  void for_each_piece(const Use& use) {
    for (int64_t first = 0; first < samples_.num_samples(); first += kSamplesPerPiece) {
      report_(progress_);
      use(first, std::min(first + kSamplesPerPiece, samples_.num_samples()));
    }
    report_(progress_);
  }

  void note(int64_t num_samples) {
    progress_.num_samples += num_samples;
    progress_.num_bytes += num_samples * samples_.sequence_length() * token_bytes();
  }
  int64_t token_bytes() const { return size_bytes(samples_.dataset(0).reader().token_type()); }

  const BlendedDataset& samples_;
  const AnalysisOptions& options_;
  const std::function<void(const AnalysisProgress&)>& report_;
  std::vector<WorkedMetric> metrics_;
  std::vector<double> rarities_;
  AnalysisProgress progress_;
};

}  // namespace

void remove_work_of_metric(const fs::path& output, const std::string& name) {
  const std::string begin = "work." + name + ".";
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    if (entry.path().filename().string().starts_with(begin)) fs::remove_all(entry.path());
  }
}

int64_t remove_work_of_other_orders(const fs::path& output, const nlohmann::ordered_json& order) {
  int64_t num_removed = 0;
  const std::string own = checksum_of(order);
  for (const fs::directory_entry& entry : fs::directory_iterator(output)) {
    const std::string name = entry.path().filename().string();
    const bool is_own = name.size() > 32 && name.substr(name.size() - 32, 16) == own;
    if (entry.is_directory() && is_work_folder(name) && !is_own) {
      fs::remove_all(entry.path());
      num_removed += 1;
    }
  }
  return num_removed;
}

std::vector<nlohmann::ordered_json> analyze_samples(
    const BlendedDataset& samples, const AnalysisOptions& options,
    const std::function<void(const AnalysisProgress&)>& report) {
  return Analysis(samples, options, report).run();
}

}  // namespace weft
