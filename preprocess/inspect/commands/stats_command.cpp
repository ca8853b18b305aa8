// weft-data inspect stats shows which documents stand out among those that some iterations of a run
// took.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/anomaly/suspects.h"
#include "preprocess/inspect/anomaly/text_anomaly.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/commands/sample_selection.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/lookup/sample_walk.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {
namespace {

constexpr Layout kSuspect = {
    "score {score:.1f} by {measure}: document {document} of {dataset}, {num_tokens#token} in "
    "{num_pieces#piece}\n[[  from {~source}\n]]"
    "  worst in sample {sample}[[, {~place}]], tokens {begin_token} to {~end_token}\n"
    "  repeated characters {repeated_characters%}, repeated tokens {repeated_tokens%}, compressed to "
    "{compressed_share%}, {bits_per_token:.1f} bits a token\n  text: {text}\n"};

// Lends each caller an object that no other thread uses meanwhile.
template <typename T>
class Pool {
 public:
  template <typename Make, typename Use>
  auto with(const Make& make, const Use& use) {
    std::unique_ptr<T> object;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        object = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (!object) object = make();
    auto result = use(*object);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(object));
    return result;
  }
  std::vector<std::unique_ptr<T>>& all() { return free_; }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

class InspectStatsCommand final : public Command {
 public:
  InspectStatsCommand()
      : Command("inspect stats",
                "show which documents stand out in what some iterations of a run took",
                "weft-data inspect stats --run checkpoints --iterations 8 12 --top 3") {}

  void declare(OptionSet& options) override {
    run_.declare(options);
    selection_.declare(options);
    options.integer("--top", num_shown_, "how many documents are shown, most suspicious first", 1);
    threads_.declare(options);
    declare_format(options, format_);
  }
  void validate(OptionSet& options) const override {
    run_.validate(options, selection_.needs_batch());
    selection_.validate(options);
  }

  int run(const OptionSet&) override {
    const RunTimeline run = run_.read();
    RunSamples samples(run, print_message);
    names_.emplace(dataset_names_of(run.segments()));
    std::vector<Stretch> stretches = selection_.select(run);
    SampleSelection::tell_what_is_to_come(stretches, run.last_trained());
    std::vector<const TakenSamples*> datasets;
    for (Stretch& stretch : stretches)
      datasets.push_back(&selection_.find_samples(samples, stretch));
    const auto vocabulary = run_.find_vocabulary_of(
        *stretches.front().segment, datasets.front()->dataset().dataset(0).reader().prefix());
    if (!vocabulary) throw std::runtime_error("texts are rated with the dataset's vocabulary");
    const std::vector<float> bits = count_tokens(stretches, datasets);
    const std::vector<MeasuredPiece> pieces = measure(stretches, datasets, *vocabulary, bits);
    print_message(fmt::format(
        "{} of at least {} tokens in {}; documents with the most suspicious ones:",
        counted(std::ssize(pieces), "piece"), kMinRatedPieceTokens, selection_.description()));
    for (const Suspect& suspect : rank_documents(pieces, num_shown_)) {
      const auto at = static_cast<size_t>(suspect.worst.stretch_idx);
      const SamplePlace place = PlaceFinder(stretches[at]).place_of(suspect.worst.sample_idx);
      print(suspect, place, datasets[at]->reader(suspect.worst.sample_idx), *vocabulary);
    }
    return 0;
  }

 private:
  // Counts the tokens of the range. Refuses one whose pieces would take more memory than anybody
  // expects of a look.
  std::vector<float> count_tokens(const std::vector<Stretch>& stretches,
                                  const std::vector<const TakenSamples*>& datasets) {
    constexpr int64_t kMostPieces = 4'000'000;  // 320 MB
    Pool<TokenCounts> pool;
    int64_t num_pieces = 0;
    for (size_t i = 0; i < stretches.size(); ++i) {
      walk_samples(
          stretches[i].first, stretches[i].last, threads_.resolved(),
          [&](int64_t sample) {
            return pool.with([] { return std::make_unique<TokenCounts>(); },
                             [&](TokenCounts& counts) {
                               int64_t num_rated = 0;
                               for_each_piece_of(*datasets[i], sample,
                                                 [&](const SamplePart& part, auto ids) {
                                                   counts.add(ids);
                                                   num_rated += is_rated(part) ? 1 : 0;
                                                 });
                               return num_rated;
                             });
          },
          [&](int64_t, int64_t num_rated) {
            num_pieces += num_rated;
            if (num_pieces <= kMostPieces) return;
            throw UsageError(fmt::format(
                "{} hold more than {} pieces of documents: stats compares the texts of a shorter "
                "range, such as the iterations before a spike",
                selection_.description(), grouped(kMostPieces)));
          });
    }
    TokenCounts total;
    for (const auto& counts : pool.all()) total.merge(*counts);
    return total.bits();
  }

  static bool is_rated(const SamplePart& part) { return part.num_tokens >= kMinRatedPieceTokens; }

  // Returns all pieces that are long enough, in the order of the run.
  std::vector<MeasuredPiece> measure(const std::vector<Stretch>& stretches,
                                     const std::vector<const TakenSamples*>& datasets,
                                     const Vocabulary& vocabulary, const std::vector<float>& bits) {
    std::vector<MeasuredPiece> all;
    const TokenTexts texts(vocabulary);
    Pool<TextMeter> pool;
    for (size_t i = 0; i < stretches.size(); ++i) {
      const auto measure_sample = [&](int64_t sample, TextMeter& meter) {
        std::vector<MeasuredPiece> pieces;
        const int64_t dataset_idx = names_->idx_of(datasets[i]->reader(sample).prefix().string());
        for_each_piece_of(*datasets[i], sample,
                          [&](const SamplePart& part, std::span<const int32_t> ids) {
                            if (!is_rated(part)) return;
                            pieces.push_back({.stretch_idx = static_cast<int32_t>(i),
                                              .dataset_idx = static_cast<int32_t>(dataset_idx),
                                              .sample_idx = sample,
                                              .part = part,
                                              .measures = meter.measure(ids)});
                          });
        return pieces;
      };
      walk_samples(
          stretches[i].first, stretches[i].last, threads_.resolved(),
          [&](int64_t sample) {
            return pool.with([&] { return std::make_unique<TextMeter>(vocabulary, texts, bits); },
                             [&](TextMeter& meter) { return measure_sample(sample, meter); });
          },
          [&](int64_t, const std::vector<MeasuredPiece>& pieces) {
            all.insert(all.end(), pieces.begin(), pieces.end());
          });
    }
    return all;
  }

  // Returns the beginning of a piece.
  static std::string excerpt(const DatasetReader& reader, const SamplePart& part,
                             const Vocabulary& vocabulary) {
    constexpr int64_t kMaxTokens = 100;
    constexpr size_t kMaxBytes = 100;
    std::vector<int32_t> ids(static_cast<size_t>(std::min(part.num_tokens, kMaxTokens)));
    reader.copy_tokens(part.sequence_idx, part.begin_token, std::ssize(ids), ids.data());
    return std::string(beginning_of(decode_ids(ids, vocabulary), kMaxBytes));
  }

  void print(const Suspect& suspect, const SamplePlace& place, const DatasetReader& reader,
             const Vocabulary& vocabulary) {
    const SamplePart& part = suspect.worst.part;
    const Measures& measures = suspect.worst.measures;
    Record record = {{"score", suspect.score.value},
                     {"measure", kMeasureNames[suspect.score.measure]},
                     {"dataset", names_->prefix(suspect.worst.dataset_idx)},
                     {"document", part.document_idx},
                     {"num_tokens", suspect.num_tokens},
                     {"num_pieces", suspect.num_pieces}};
    add_source(record, sources_.of(reader), part.document_idx);
    record["sample"] = suspect.worst.sample_idx;
    add_place(record, place);
    record["begin_token"] = part.begin_token;
    record["~end_token"] = part.begin_token + part.num_tokens;
    record["repeated_characters"] = measures[kRepeatedCharacters];
    record["repeated_tokens"] = measures[kRepeatedTokens];
    record["compressed_share"] = measures[kCompressedSize];
    record["bits_per_token"] = measures[kRarity];
    record["text"] = excerpt(reader, part, vocabulary);
    print_record(format_, std::move(record), kSuspect);
  }

  RunOptions run_;
  SampleSelection selection_;
  ThreadsOption threads_;
  int64_t num_shown_ = 20;
  Format format_ = Format::kText;
  SourceMaps sources_;
  std::optional<DatasetNames> names_;  // of the run
};

}  // namespace

std::unique_ptr<Command> make_inspect_stats_command() {
  return std::make_unique<InspectStatsCommand>();
}

}  // namespace weft
