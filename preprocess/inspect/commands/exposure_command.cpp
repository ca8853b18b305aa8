// weft-data inspect exposure tells what a run has seen of its training data.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/commands/run_options.h"
#include "preprocess/inspect/lookup/exposure.h"

namespace weft {
namespace {

constexpr Layout kDatasetLine = {
    "{dataset}: {samples#sample}, {tokens,} tokens, {epochs:.3f} epochs of {tokens_per_epoch,} "
    "tokens[[; {masked_tokens,} of them without loss (--unsee)]]\n"};
constexpr Layout kPartLine = {
    "[[{input}]][[document {document}]] of {dataset}: {tokens,} tokens, {epochs:.3f} times "
    "{tokens_per_epoch,} tokens[[; {masked_tokens,} of them without loss (--unsee)]]\n"};

enum class By { kDataset, kSource, kDocument };

// Holds how much of a dataset, an input or a document was seen, and how much there is of it.
struct Seen {
  std::string prefix, name;  // of the input
  int64_t document_idx = 0;
  int64_t num_samples = 0, num_tokens = 0, num_tokens_there = 0;
  int64_t num_masked_tokens = 0;  // of num_tokens

  double times() const {
    return num_tokens_there == 0
               ? 0
               : static_cast<double>(num_tokens) / static_cast<double>(num_tokens_there);
  }
};

class InspectExposureCommand final : public Command {
 public:
  InspectExposureCommand()
      : Command("inspect exposure", "tell what a training run has seen of its training data",
                "weft-data inspect exposure --run checkpoints --by source") {}

  void declare(OptionSet& options) override {
    run_.declare(options);
    options.choice(
        "--by", by_,
        {{"dataset", By::kDataset}, {"source", By::kSource}, {"document", By::kDocument}},
        "tokens of each dataset, of each input of the corpus, or of each document");
    options.integer("--iteration", iteration_,
                    "up to this iteration; without it: to the last one of metrics.jsonl, or of the "
                    "arguments where there is no run",
                    1);
    options.integer("--top", num_shown_, "how many documents are shown, most often seen first", 1);
    threads_.declare(options);
    declare_format(options, format_);
  }
  void validate(OptionSet& options) const override { run_.validate(options, true); }

  int run(const OptionSet&) override {
    const RunTimeline run = run_.read();
    std::optional<int64_t> last = iteration_;
    if (!last) {
      last = run.last_trained();
      if (!last && !run_.run_folder.empty()) {
        throw std::runtime_error(
            run_.run_folder +
            ": there is no metrics.jsonl that tells how far the run has come; give --iteration");
      }
    }
    if (iteration_) {
      const std::string message = run.refusal_of(*iteration_);
      if (!message.empty()) throw UsageError(message);
      print_if_to_come(*iteration_, run.last_trained());
    }
    const int64_t num_before = run.segments().front().resumed.iteration;
    std::vector<Stretch> stretches;
    if (!last) {
      stretches = run.all(Split::kTrain);
    } else if (*last > num_before) {
      stretches = run.of_range(num_before + 1, *last);
    }
    if (stretches.empty()) throw std::runtime_error("the run's folder tells of no such iteration");
    if (num_before > 0) {
      print_message(
          fmt::format("iterations 1 to {} are left out: another run took them, from whose "
                      "checkpoint this one began",
                      num_before));
    }
    stretches = trained_of(stretches);
    RunSamples samples(run, print_message);
    if (by_ == By::kDataset) {
      for (const auto& [prefix, exposure] :
           exposure_of_datasets(samples, stretches, threads_.resolved()))
        print({.prefix = prefix,
               .name = {},
               .num_samples = exposure.num_samples,
               .num_tokens = exposure.num_tokens,
               .num_tokens_there = exposure.num_tokens_per_epoch,
               .num_masked_tokens = exposure.num_masked_tokens});
      return 0;
    }
    std::vector<Seen> all;
    for (const auto& [prefix, exposure] :
         exposure_of_sequences(samples, stretches, threads_.resolved()))
      by_ == By::kSource ? add_sources(prefix, exposure, all)
                         : add_documents(prefix, exposure, all);
    if (by_ == By::kDocument) {
      const auto end = all.begin() + std::min<int64_t>(num_shown_, std::ssize(all));
      std::partial_sort(all.begin(), end, all.end(), [](const Seen& a, const Seen& b) {
        return std::tuple(-a.times(), -a.num_tokens, a.prefix, a.document_idx) <
               std::tuple(-b.times(), -b.num_tokens, b.prefix, b.document_idx);
      });
      all.erase(end, all.end());
    }
    for (const Seen& seen : all) print(seen);
    return 0;
  }

 private:
  // Leaves out the iterations that trained nothing, and says how many samples that are.
  static std::vector<Stretch> trained_of(const std::vector<Stretch>& stretches) {
    std::vector<Stretch> trained;
    int64_t num_untrained = 0;
    for (const Stretch& stretch : stretches) {
      num_untrained += stretch.last - stretch.first;
      for (const Stretch& part : trained_parts(stretch)) {
        num_untrained -= part.last - part.first;
        trained.push_back(part);
      }
    }
    if (num_untrained > 0) {
      print_message(
          fmt::format("{} are left out: their iterations consumed them and trained nothing "
                      "(--iterations-to-skip, --skip-train-iteration-range)",
                      counted(num_untrained, "sample")));
    }
    return trained;
  }

  // Calls use(document, what was seen of it) for each document that training draws from.
  static void for_each_document(const std::string& prefix, const SequenceExposure& exposure,
                                const std::function<void(const Seen&)>& use) {
    const Documents documents(*exposure.reader);
    for (int64_t document = 0; document < documents.count(); ++document) {
      const auto [first, last] = documents.sequences(document);
      Seen seen{.prefix = prefix, .name = {}, .document_idx = document};
      for (const SequenceRange& drawn : exposure.drawn) {
        for (int64_t i = std::max(first, drawn.begin); i < std::min(last, drawn.end); ++i) {
          const auto at = static_cast<size_t>(i);
          seen.num_tokens += exposure.num_tokens[at];
          seen.num_tokens_there += exposure.reader->length(i);
          if (!exposure.num_masked_tokens.empty())
            seen.num_masked_tokens += exposure.num_masked_tokens[at];
        }
      }
      if (seen.num_tokens_there > 0) use(seen);
    }
  }

  static void add_sources(const std::string& prefix, const SequenceExposure& exposure,
                          std::vector<Seen>& all) {
    const std::optional<SourceMap> sources = open_source_map_of(*exposure.reader);
    if (!sources) {
      throw std::runtime_error(prefix +
                               ": there is no source map beside the dataset: its inputs are not "
                               "known; --by dataset and --by document do without");
    }
    std::vector<Seen> inputs;
    for (const std::string& name : sources->inputs())
      inputs.push_back({.prefix = prefix, .name = name});
    for_each_document(prefix, exposure, [&](const Seen& document) {
      Seen& input = inputs[sources->entry(document.document_idx).input_idx];
      input.num_tokens += document.num_tokens;
      input.num_tokens_there += document.num_tokens_there;
      input.num_masked_tokens += document.num_masked_tokens;
    });
    all.insert(all.end(), inputs.begin(), inputs.end());
  }

  static void add_documents(const std::string& prefix, const SequenceExposure& exposure,
                            std::vector<Seen>& all) {
    for_each_document(prefix, exposure, [&](const Seen& document) {
      if (document.num_tokens > 0) all.push_back(document);
    });
  }

  void print(const Seen& seen) const {
    Record record = {{"dataset", seen.prefix}};
    if (by_ == By::kDataset) record["samples"] = seen.num_samples;
    if (by_ == By::kSource) record["input"] = seen.name;
    if (by_ == By::kDocument) record["document"] = seen.document_idx;
    record["tokens"] = seen.num_tokens;
    record["tokens_per_epoch"] = seen.num_tokens_there;
    record["epochs"] = seen.times();
    if (seen.num_masked_tokens > 0) record["masked_tokens"] = seen.num_masked_tokens;
    print_record(format_, std::move(record), by_ == By::kDataset ? kDatasetLine : kPartLine);
  }

  RunOptions run_;
  ThreadsOption threads_;
  By by_ = By::kDataset;
  std::optional<int64_t> iteration_;
  int64_t num_shown_ = 20;
  Format format_ = Format::kText;
};

}  // namespace

std::unique_ptr<Command> make_inspect_exposure_command() {
  return std::make_unique<InspectExposureCommand>();
}

}  // namespace weft
