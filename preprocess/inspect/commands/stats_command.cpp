// weft-data inspect stats shows which documents stand out among those that some iterations of a run
// took.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

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

using Json = nlohmann::ordered_json;

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
                "show which documents stand out in what some iterations of a run took") {}

  void declare(OptionSet& options) override {
    run_.declare(options);
    selection_.declare(options);
    options.integer(
        "--top", num_shown_,
        "how many documents are shown, most suspicious first; memory grows with it, not with the range",
        1);
    threads_.declare(options);
    declare_format(options, as_json_);
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
    std::vector<Suspect> suspects = find_suspects(stretches, datasets, *vocabulary, bits);
    count_pieces(stretches, datasets, suspects);
    for (const Suspect& suspect : suspects)
      as_json_ ? print_json(suspect, *vocabulary) : print_text(suspect, *vocabulary);
    return 0;
  }

 private:
  std::vector<float> count_tokens(const std::vector<Stretch>& stretches,
                                  const std::vector<const TakenSamples*>& datasets) {
    Pool<TokenCounts> pool;
    for (size_t i = 0; i < stretches.size(); ++i) {
      walk_samples(
          stretches[i].first, stretches[i].last, threads_.resolved(),
          [&](int64_t sample) {
            return pool.with([] { return std::make_unique<TokenCounts>(); },
                             [&](TokenCounts& counts) {
                               for_each_piece_of(
                                   *datasets[i], sample,
                                   [&](const SamplePart&, auto ids) { counts.add(ids); });
                               return true;
                             });
          },
          [](int64_t, bool) {});
    }
    TokenCounts total;
    for (const auto& counts : pool.all()) total.merge(*counts);
    return total.bits();
  }

  std::vector<Suspect> find_suspects(const std::vector<Stretch>& stretches,
                                     const std::vector<const TakenSamples*>& datasets,
                                     const Vocabulary& vocabulary, const std::vector<float>& bits) {
    MeasureHistograms histograms;
    SuspectSearch search(num_shown_);
    Pool<TextMeter> pool;
    for (size_t i = 0; i < stretches.size(); ++i) {
      PlaceFinder places(stretches[i]);
      walk_samples(
          stretches[i].first, stretches[i].last, threads_.resolved(),
          [&](int64_t sample) {
            return pool.with(
                [&] { return std::make_unique<TextMeter>(vocabulary, bits); },
                [&](TextMeter& meter) { return measure_sample(*datasets[i], sample, meter); });
          },
          [&](int64_t sample, std::vector<MeasuredPiece> pieces) {
            const SamplePlace place = places.place_of(sample);
            for (MeasuredPiece& piece : pieces) {
              piece.place = place;
              histograms.add(piece.measures);
              search.add(piece);
            }
          });
    }
    print_message(fmt::format(
        "{} of at least {} tokens in {}; documents with the most suspicious ones:",
        counted(histograms.num_pieces(), "piece"), kMinRatedPieceTokens, selection_.description()));
    return search.ranked(AnomalyScale(histograms));
  }

  std::vector<MeasuredPiece> measure_sample(const TakenSamples& samples, int64_t sample_idx,
                                            TextMeter& meter) const {
    std::vector<MeasuredPiece> pieces;
    const DatasetReader& reader = samples.reader(sample_idx);
    const int64_t dataset_idx = names_->idx_of(reader.prefix().string());
    for_each_piece_of(samples, sample_idx,
                      [&](const SamplePart& part, std::span<const int32_t> ids) {
                        if (part.num_tokens < kMinRatedPieceTokens) return;
                        pieces.push_back({.reader = &reader,
                                          .dataset_idx = dataset_idx,
                                          .sample_idx = sample_idx,
                                          .place = {},
                                          .part = part,
                                          .measures = meter.measure(ids)});
                      });
    return pieces;
  }

  // Counts the pieces of these documents in the range. It reads no tokens, so that it takes a small
  // part of the time of measuring.
  void count_pieces(const std::vector<Stretch>& stretches,
                    const std::vector<const TakenSamples*>& datasets,
                    std::vector<Suspect>& suspects) {
    std::map<std::pair<int64_t, int64_t>, Suspect*> by_document;
    for (Suspect& suspect : suspects)
      by_document[{suspect.worst.dataset_idx, suspect.worst.part.document_idx}] = &suspect;
    for (size_t i = 0; i < stretches.size(); ++i) {
      walk_samples(
          stretches[i].first, stretches[i].last, threads_.resolved(),
          [&](int64_t sample) {
            std::vector<std::pair<Suspect*, int64_t>> found;
            const int64_t dataset_idx =
                names_->idx_of(datasets[i]->reader(sample).prefix().string());
            for (const SamplePart& part : datasets[i]->parts(sample)) {
              const auto suspect = by_document.find({dataset_idx, part.document_idx});
              if (suspect != by_document.end() && part.num_tokens >= kMinRatedPieceTokens)
                found.emplace_back(suspect->second, part.num_tokens);
            }
            return found;
          },
          [](int64_t, const auto& found) {
            for (const auto& [suspect, num_tokens] : found) {
              ++suspect->num_pieces;
              suspect->num_tokens += num_tokens;
            }
          });
    }
  }

  // The beginning of the worst piece.
  static std::string excerpt(const Suspect& suspect, const Vocabulary& vocabulary) {
    constexpr int64_t kMaxTokens = 100;
    constexpr size_t kMaxBytes = 100;
    const SamplePart& part = suspect.worst.part;
    std::vector<int32_t> ids(static_cast<size_t>(std::min(part.num_tokens, kMaxTokens)));
    suspect.worst.reader->copy_tokens(part.sequence_idx, part.begin_token, std::ssize(ids),
                                      ids.data());
    const std::string text = decode_ids(ids, vocabulary);
    return std::string(beginning_of(text, kMaxBytes));
  }

  void print_text(const Suspect& suspect, const Vocabulary& vocabulary) {
    const SamplePart& part = suspect.worst.part;
    const std::optional<SourceMap>& sources = sources_.of(*suspect.worst.reader);
    const Measures& measures = suspect.worst.measures;
    const std::string where = describe(suspect.worst.place);
    fmt::print("score {:.1f} by {}: document {} of {}, {} in {}\n", suspect.score.value,
               kMeasureNames[suspect.score.measure], part.document_idx,
               escape_for_terminal(names_->prefix(suspect.worst.dataset_idx)),
               counted(suspect.num_tokens, "token"), counted(suspect.num_pieces, "piece"));
    if (sources)
      fmt::print("  from {}\n", escape_for_terminal(sources->describe(part.document_idx)));
    fmt::print("  worst in sample {}{}{}, tokens {} to {}\n", suspect.worst.sample_idx,
               where.empty() ? "" : ", ", where, part.begin_token,
               part.begin_token + part.num_tokens);
    fmt::print(
        "  repeated characters {}, repeated tokens {}, compressed to {}, {:.1f} bits a token\n",
        percent(measures[kRepeatedCharacters]), percent(measures[kRepeatedTokens]),
        percent(measures[kCompressedSize]), measures[kRarity]);
    fmt::print("  text: {}\n", escape_for_terminal(excerpt(suspect, vocabulary)));
  }

  void print_json(const Suspect& suspect, const Vocabulary& vocabulary) {
    const SamplePart& part = suspect.worst.part;
    const Measures& measures = suspect.worst.measures;
    Json json = {{"score", suspect.score.value},
                 {"measure", kMeasureNames[suspect.score.measure]},
                 {"dataset", names_->prefix(suspect.worst.dataset_idx)},
                 {"document", part.document_idx},
                 {"num_tokens", suspect.num_tokens},
                 {"num_pieces", suspect.num_pieces}};
    add_source(json, sources_.of(*suspect.worst.reader), part.document_idx);
    json["sample"] = suspect.worst.sample_idx;
    add_place(json, suspect.worst.place);
    json["begin_token"] = part.begin_token;
    json["repeated_characters"] = measures[kRepeatedCharacters];
    json["repeated_tokens"] = measures[kRepeatedTokens];
    json["compressed_share"] = measures[kCompressedSize];
    json["bits_per_token"] = measures[kRarity];
    json["text"] = excerpt(suspect, vocabulary);
    print_line(json);
  }

  RunOptions run_;
  SampleSelection selection_;
  ThreadsOption threads_;
  int64_t num_shown_ = 20;
  bool as_json_ = false;
  SourceMaps sources_;
  std::optional<DatasetNames> names_;  // of the run
};

}  // namespace

std::unique_ptr<Command> make_inspect_stats_command() {
  return std::make_unique<InspectStatsCommand>();
}

}  // namespace weft
