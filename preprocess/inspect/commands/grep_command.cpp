// weft-data inspect grep finds a pattern in what some iterations of a run took.
#include <fmt/format.h>

#include <cstdio>

#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/commands/sample_selection.h"
#include "preprocess/inspect/lookup/run_readings.h"
#include "preprocess/inspect/lookup/sample_walk.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/text_pattern.h"

namespace weft {
namespace {

constexpr Layout kMatch = {
    "sample {sample}[[, {~place}]]: document {document} of {dataset}, tokens {begin_token} to "
    "{~end_token}, {matches#time}\n[[  from {~source}\n]]  text: {before}[{match}]{behind}\n"};

// A piece of a document that holds the pattern.
struct Match {
  SamplePart part;
  int64_t count = 0;
  std::string before, text, behind;  // the first one, and what stands around it
};

constexpr size_t kContextBytes = 40;
constexpr size_t kShownBytes = 400;  // of a match: it may be a line of any length

class InspectGrepCommand final : public Command {
 public:
  InspectGrepCommand()
      : Command("inspect grep", "find a pattern in what some iterations of a training run took",
                "weft-data inspect grep 'brown fox' --run checkpoints --iterations 8 12") {}

  void declare(OptionSet& options) override {
    options.text(
        "PATTERN", pattern_text_,
        "a regular expression (RE2's syntax), within the piece of a document that a sample holds");
    options.flag("--fixed-strings", is_fixed_, "the pattern is a text, byte for byte");
    run_.declare(options);
    selection_.declare(options);
    threads_.declare(options);
    declare_format(options, format_);
  }
  void validate(OptionSet& options) const override {
    if (pattern_text_.empty())
      options.problem("give the pattern to look for");
    else
      options.check([this] { TextPattern(pattern_text_, is_fixed_); });
    run_.validate(options, selection_.needs_batch());
    selection_.validate(options);
  }

  int run(const OptionSet&) override {
    const RunTimeline run = run_.read();
    const TextPattern pattern(pattern_text_, is_fixed_);
    RunSamples samples(run, print_message);
    std::vector<Stretch> selected = selection_.select(run);
    SampleSelection::tell_what_is_to_come(selected, run.last_trained());
    for (Stretch& stretch : selected) {
      const TakenSamples& taken = selection_.find_samples(samples, stretch);
      const auto vocabulary =
          run_.find_vocabulary_of(*stretch.segment, taken.dataset().dataset(0).reader().prefix());
      if (!vocabulary)
        throw std::runtime_error("a text can be found only with the dataset's vocabulary");
      PlaceFinder places(stretch);
      walk_samples(
          stretch.first, stretch.last, threads_.resolved(),
          [&](int64_t sample) { return matches_in(taken, sample, *vocabulary, pattern); },
          [&](int64_t sample, const std::vector<Match>& matches) {
            if (matches.empty()) return;
            const SamplePlace place = places.place_of(sample);
            for (const Match& match : matches) print(taken, sample, place, match);
          });
    }
    std::fflush(stdout);  // before the message, where both go to one file
    print_message(fmt::format("found {} in {} of {}", counted(num_matches_, "time"),
                              counted(num_pieces_, "document piece"), selection_.description()));
    return 0;
  }

 private:
  std::vector<Match> matches_in(const TakenSamples& taken, int64_t sample_idx,
                                const Vocabulary& vocabulary, const TextPattern& pattern) const {
    std::vector<Match> matches;
    std::string decoded;
    for_each_piece_of(taken, sample_idx, [&](const SamplePart& part, std::span<const int32_t> ids) {
      decoded.clear();
      append_decoded(decoded, ids, vocabulary);
      const auto first = pattern.find(decoded);
      if (!first) return;
      Match& match = matches.emplace_back();
      match.part = part;
      const size_t begin = first->begin - std::min(first->begin, kContextBytes);
      match.before = decoded.substr(begin, first->begin - begin);
      match.text = decoded.substr(first->begin, std::min(first->end - first->begin, kShownBytes));
      match.behind = decoded.substr(first->end, kContextBytes);
      match.count = pattern.count(decoded);
    });
    return matches;
  }

  void print(const TakenSamples& taken, int64_t sample_idx, const SamplePlace& place,
             const Match& match) {
    num_matches_ += match.count;
    ++num_pieces_;
    const DatasetReader& reader = taken.reader(sample_idx);
    Record record = {{"sample", sample_idx}, {"split", selection_.split.name()}};
    add_place(record, place);
    record["dataset"] = reader.prefix().string();
    record["document"] = match.part.document_idx;
    add_tokens(record, match.part);
    add_source(record, sources_.of(reader), match.part.document_idx);
    record["matches"] = match.count;
    record["before"] = match.before;
    record["match"] = match.text;
    record["behind"] = match.behind;
    print_record(format_, std::move(record), kMatch);
  }

  std::string pattern_text_;
  RunOptions run_;
  SampleSelection selection_;
  ThreadsOption threads_;
  bool is_fixed_ = false;
  Format format_ = Format::kText;
  SourceMaps sources_;
  int64_t num_matches_ = 0, num_pieces_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_inspect_grep_command() {
  return std::make_unique<InspectGrepCommand>();
}

}  // namespace weft
