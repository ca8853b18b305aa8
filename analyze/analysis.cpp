#include "analyze/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "indexed_dataset/process/crash_point.h"
#include "indexed_dataset/process/parallel_for.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/npy_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// 2^15 samples of 2048 tokens are 128 MiB of tokens: a fraction of a second on all cores, and a
// hundred million samples make 3,000 files.
constexpr int64_t kSamplesPerPiece = 1 << 15;
constexpr int64_t kSamplesPerTask = 64;

fs::path work_folder(const AnalysisOptions& options) {
  nlohmann::ordered_json all = {{"order", options.order}};
  for (const AnalyzedMetric& metric : options.metrics)
    all["metrics"].push_back({metric.request.name, metric.request.parameters});
  const std::string text = all.dump();
  return options.output / fmt::format("work.{:016x}", XXH3_64bits(text.data(), text.size()));
}

// A file that an earlier run has finished, or nothing if it is not there or has another shape.
std::optional<std::vector<int64_t>> find_values(const fs::path& path,
                                                const std::vector<int64_t>& shape) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const NpyArray file(path);
    if (!file.holds<int64_t>() || (!shape.empty() && file.shape() != shape)) return std::nullopt;
    const auto values = file.values<int64_t>();
    return std::vector<int64_t>(values.begin(), values.end());
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

// Reads samples; each thread needs its own.
class SampleReader {
 public:
  explicit SampleReader(const BlendedDataset& samples)
      : samples_(samples), tokens_(static_cast<size_t>(samples.sequence_length() + 1)) {}

  const MeasuredSample& read(int64_t sample_idx, bool with_parts) {
    const BlendedDataset::Place place = samples_.locate(sample_idx);
    samples_.sample(sample_idx, tokens_.data());
    if (*std::min_element(tokens_.begin(), tokens_.end()) < 0)
      throw std::runtime_error(fmt::format("{}: sample {} holds a negative token id",
                                           samples_.description(), sample_idx));
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
  const BlendedDataset& samples_;
  std::vector<int32_t> tokens_;
  std::vector<SamplePart> parts_;
  MeasuredSample sample_;
};

class Analysis {
 public:
  Analysis(const BlendedDataset& samples, const AnalysisOptions& options,
           const std::function<void(const AnalysisProgress&)>& report)
      : samples_(samples), options_(options), report_(report), work_(work_folder(options)) {}

  std::vector<nlohmann::ordered_json> run() {
    fs::create_directories(work_);
    for (int64_t d = 0; d < samples_.num_datasets(); ++d)
      samples_.dataset(d).reader().expect_random_reads();
    const bool counts = std::any_of(
        options_.metrics.begin(), options_.metrics.end(),
        [](const AnalyzedMetric& metric) { return metric.request.name == kVocabRarity; });
    if (counts) rarities_ = rarity_of_tokens(count_tokens());
    std::vector<std::vector<int64_t>> values(options_.metrics.size());
    for (auto& one : values) one.resize(static_cast<size_t>(samples_.num_samples()));
    measure(values);
    std::vector<nlohmann::ordered_json> stamps;
    for (size_t m = 0; m < values.size(); ++m) {
      stamps.push_back(write_metric_files(options_.output, options_.metrics[m].request, values[m],
                                          options_.order));
      values[m] = {};
    }
    fs::remove_all(work_);
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

  std::vector<int64_t> count_tokens() {
    const fs::path file = work_ / "counts.npy";
    if (auto found = find_values(file, {})) return std::move(*found);
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
      note(last - first);
    });
    std::vector<int64_t> total;
    for (const std::vector<int64_t>& own : counts) {
      total.resize(std::max(total.size(), own.size()));
      for (size_t id = 0; id < own.size(); ++id) total[id] += own[id];
    }
    write_npy(file, std::span<const int64_t>(total));
    progress_.is_counting = false;
    progress_.num_samples = 0;
    return total;
  }

  void measure(std::vector<std::vector<int64_t>>& values) {
    const auto num_metrics = std::ssize(values);
    int64_t piece_idx = 0;
    for_each_piece([&](int64_t first, int64_t last) {
      const fs::path file = work_ / fmt::format("{:06}.npy", piece_idx++);
      const int64_t count = last - first;
      const std::vector<int64_t> shape =
          num_metrics == 1 ? std::vector{count} : std::vector{count, num_metrics};
      if (const auto found = find_values(file, shape)) {
        for (size_t i = 0; i < found->size(); ++i)
          values[i % values.size()][static_cast<size_t>(first) + i / values.size()] = (*found)[i];
        progress_.num_resumed += count;
        return;
      }
      std::vector<int64_t> piece(static_cast<size_t>(count * num_metrics));
      measure_piece(first, last, piece);
      for (size_t i = 0; i < piece.size(); ++i)
        values[i % values.size()][static_cast<size_t>(first) + i / values.size()] = piece[i];
      write_npy(file, std::span<const int64_t>(piece), num_metrics);
      crash_point("analyze-piece");
      note(count);
    });
  }

  // `piece` has the values of a sample side by side.
  void measure_piece(int64_t first, int64_t last, std::vector<int64_t>& piece) {
    for_each_sample(
        first, last, true,
        [&](int64_t) {
          std::vector<std::unique_ptr<SampleMetric>> metrics;
          for (const AnalyzedMetric& metric : options_.metrics)
            metrics.push_back(metric.make(rarities_));
          return metrics;
        },
        [&](const MeasuredSample& sample, auto& metrics) {
          for (size_t m = 0; m < metrics.size(); ++m)
            piece[static_cast<size_t>(sample.sample_idx - first) * metrics.size() + m] =
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
  const fs::path work_;
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
