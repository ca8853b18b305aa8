// weft-data inspect documents tells which iterations of a run took a document.
#include <fmt/format.h>

#include <map>
#include <set>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/run_record/named_documents.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/commands/run_options.h"
#include "preprocess/inspect/lookup/find_documents.h"
#include "preprocess/inspect/lookup/run_readings.h"

namespace weft {
namespace {

constexpr Layout kReadings = {
    "document {document} of {dataset}: {num_tokens#token}\n[[  from {~source}\n]]"
    "[[@~splits:  {split}: [[{is_never!}never\n]]"
    "[[{num_samples#sample}, {num_taken#token} ({times:.2f} times)"
    "[[; {num_to_come} of them after iteration {last_logged}, the last logged one]]\n]]"
    "[[@taken:    [[evaluation {~evaluation} ]][[iteration {iteration}, ]][[{~evaluation!}group {group}, ]]"
    "[[rank {rank}, micro-batch {micro_batch}, slot {slot}, ]]"
    "sample {sample}: tokens {begin_token} to {~end_token}[[{unseen!}, without loss (--unsee)]]\n]]]]"};

struct Options {
  RunOptions run;
  ThreadsOption threads;
  std::string dataset, source, pattern;
  std::optional<int64_t> document;
  std::optional<Split> split;
  bool is_fixed = false;
  Format format = Format::kText;

  void declare(OptionSet& options) {
    run.declare(options);
    options.integer("--document", document, "the document, counted from 0, empty ones included");
    options.text("--source", source,
                 "FILE:OFFSET: the document of the line that begins at this byte of an input");
    options.text("--grep", pattern, "all documents that hold a match of this regular expression");
    options.flag("--fixed-strings", is_fixed, "the text of --grep is meant byte for byte");
    options.text("--dataset", dataset, "which of the run's datasets: its prefix, or the end of it");
    options.choice("--split-name", split,
                   {{"all", std::nullopt},
                    {"train", Split::kTrain},
                    {"valid", Split::kValid},
                    {"test", Split::kTest}},
                   "who took it");
    threads.declare(options);
    declare_format(options, format);
  }

  void validate(OptionSet& options) const {
    run.validate(options, split && *split != Split::kTrain);
    if (document.has_value() + !source.empty() + !pattern.empty() != 1)
      options.problem("give one of --document N, --source FILE:OFFSET and --grep PATTERN");
    if (!pattern.empty()) options.check([this] { TextPattern(pattern, is_fixed); });
    if (is_fixed && pattern.empty()) options.problem("--fixed-strings goes with --grep");
    if (!source.empty()) options.check([this] { parse_source_line(source); });
  }
};

class InspectDocumentsCommand final : public Command {
 public:
  InspectDocumentsCommand()
      : Command("inspect documents",
                "tell which iterations and ranks of a training run took a document",
                "weft-data inspect documents --run checkpoints --document 77") {}
  void declare(OptionSet& options) override { options_.declare(options); }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const RunTimeline run = options_.run.read();
    last_iteration_ = run.last_trained();
    names_.emplace(dataset_names_of(run.segments()));
    open_datasets();
    const std::map<std::string, std::vector<int64_t>> documents =
        wanted_documents(run.segments().back());
    std::map<std::pair<std::string, int64_t>, std::vector<Reading>> readings;
    const SequencesByDataset sequences = sequences_of(documents);
    RunSamples samples(run, print_message);
    for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
      if (options_.split && *options_.split != split) continue;
      for (Reading& reading : readings_of(samples, sequences, split)) {
        readings[{names_->first_spelling(reading.prefix), reading.part.document_idx}].push_back(
            std::move(reading));
      }
    }
    for (const auto& [prefix, of_dataset] : documents) {
      for (const int64_t document : of_dataset)
        print(prefix, document, readings[{prefix, document}]);
    }
    return 0;
  }

 private:
  // Opens all datasets of the run, or the one that --dataset means.
  void open_datasets() {
    std::vector<std::string> prefixes = names_->prefixes();
    const std::string given = without_suffix(options_.dataset).string();
    if (!given.empty()) {
      const std::vector<int64_t> meant = names_->named(given);
      if (meant.size() != 1) {
        throw UsageError(fmt::format(
            "--dataset {}: {} of the run's {} datasets ends so; they are {}", given,
            meant.empty() ? "none" : "more than one", prefixes.size(), fmt::join(prefixes, ", ")));
      }
      prefixes = {names_->prefix(meant.front())};
    }
    if (options_.document && prefixes.size() > 1) {
      throw UsageError(fmt::format(
          "--document: the run has {} datasets; say which one is meant by --dataset: {}",
          prefixes.size(), fmt::join(prefixes, ", ")));
    }
    for (const std::string& prefix : prefixes)
      datasets_[prefix] = std::make_unique<OpenDataset>(prefix);
  }

  std::map<std::string, std::vector<int64_t>> wanted_documents(const RunSegment& segment) const {
    std::map<std::string, std::vector<int64_t>> documents;
    if (options_.document) {
      const auto& [prefix, dataset] = *datasets_.begin();
      if (*options_.document >= dataset->documents.count()) {
        throw UsageError(fmt::format("{}: there is no document {}, there are {} (from 0)", prefix,
                                     *options_.document, dataset->documents.count()));
      }
      documents[prefix] = {*options_.document};
    } else if (!options_.source.empty()) {
      return documents_of_line(parse_source_line(options_.source));
    } else {
      const TextPattern pattern(options_.pattern, options_.is_fixed);
      for (const auto& [prefix, dataset] : datasets_) {
        const auto vocabulary = options_.run.find_vocabulary_of(segment, prefix);
        if (!vocabulary)
          throw std::runtime_error(prefix + ": --grep needs the dataset's vocabulary");
        documents[prefix] =
            documents_with(dataset->reader, *vocabulary, pattern, options_.threads.resolved());
      }
      size_t count = 0;
      for (const auto& [prefix, found] : documents) count += found.size();
      print_message(fmt::format("{} with this {}", counted(static_cast<int64_t>(count), "document"),
                                options_.is_fixed ? "text" : "pattern"));
    }
    return documents;
  }

  std::map<std::string, std::vector<int64_t>> documents_of_line(const SourceLine& line) const {
    std::map<std::string, std::vector<int64_t>> documents;
    std::string nearest, without;
    bool is_input = false;
    for (const auto& [prefix, dataset] : datasets_) {
      if (!dataset->sources) {
        without += (without.empty() ? "" : ", ") + prefix;
        continue;
      }
      const auto inputs = inputs_named(*dataset->sources, line.file);
      if (inputs.empty()) continue;
      is_input = true;
      const auto found = documents_at(*dataset->sources, inputs, line.offset_bytes, nearest);
      if (!found.empty()) documents[prefix] = found;
    }
    if (!documents.empty()) return documents;
    std::string why = is_input ? fmt::format("no document's line begins at byte {} of it; {}",
                                             line.offset_bytes, nearest)
                               : "no dataset of the run was made of it";
    if (!without.empty()) why += "; no source map beside " + without;
    throw std::runtime_error("--source " + line.file + ": " + why);
  }

  SequencesByDataset sequences_of(
      const std::map<std::string, std::vector<int64_t>>& documents) const {
    SequencesByDataset sequences;
    for (const auto& [prefix, of_dataset] : documents) {
      for (const int64_t document : of_dataset) {
        const OpenDataset& dataset = *datasets_.at(prefix);
        const auto [first, last] = dataset.documents.sequences(document);
        for (const std::string& spelling : names_->spellings(names_->idx_of(prefix)))
          for (int64_t i = first; i < last; ++i) sequences[spelling].push_back(i);
      }
    }
    return sequences;
  }

  // With all splits, one of which the folder does not tell all is told of the others.
  std::vector<Reading> readings_of(RunSamples& samples, const SequencesByDataset& sequences,
                                   Split split) const {
    try {
      return find_readings(samples, sequences, split, options_.threads.resolved());
    } catch (const std::runtime_error& error) {
      if (options_.split || split == Split::kTrain) throw;
      print_message(fmt::format("{} is left out: {}", split_name(split), error.what()));
      return {};
    }
  }

  bool is_to_come(const Reading& reading) const {
    return last_iteration_ && reading.place.iteration &&
           *reading.place.iteration > *last_iteration_;
  }

  void print(const std::string& prefix, int64_t document,
             const std::vector<Reading>& readings) const {
    const OpenDataset& dataset = *datasets_.at(prefix);
    const int64_t num_tokens = dataset.documents.num_tokens(document);
    Record record = {{"document", document}, {"dataset", prefix}, {"num_tokens", num_tokens}};
    add_source(record, dataset.sources, document);
    Record list = Record::array(), splits = Record::array();
    for (const Reading& reading : readings) list.push_back(record_of(reading));
    for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
      if (options_.split && *options_.split != split) continue;
      Record& of_split = splits.emplace_back(Record{{"split", split_name(split)}});
      Record taken = Record::array();
      int64_t num_taken = 0, num_to_come = 0;
      for (size_t i = 0; i < readings.size(); ++i) {
        if (readings[i].split != split) continue;
        num_taken += readings[i].part.num_tokens;
        num_to_come += is_to_come(readings[i]) ? 1 : 0;
        taken.push_back(list[i]);
      }
      if (taken.empty()) {
        of_split["is_never"] = true;
        continue;
      }
      of_split["num_samples"] = taken.size();
      of_split["num_taken"] = num_taken;
      of_split["times"] = static_cast<double>(num_taken) / static_cast<double>(num_tokens);
      of_split["taken"] = std::move(taken);
      if (num_to_come == 0) continue;
      of_split["num_to_come"] = num_to_come;
      of_split["last_logged"] = *last_iteration_;
    }
    record["readings"] = std::move(list);
    record["~splits"] = std::move(splits);
    print_record(options_.format, std::move(record), kReadings);
  }

  Record record_of(const Reading& reading) const {
    Record record = {{"split", short_split_name(reading.split)}};
    if (!reading.group.empty()) record["group"] = reading.group;
    add_place(record, reading.place);
    if (last_iteration_) record["is_logged"] = !is_to_come(reading);
    record["sample"] = reading.sample_idx;
    record["sequence"] = reading.part.sequence_idx;
    add_tokens(record, reading.part);
    if (reading.is_unseen) record["unseen"] = true;
    if (reading.split != Split::kTrain)
      record["~evaluation"] = reading.place.at_end ? "at the end of training, after" : "after";
    return record;
  }

  Options options_;
  std::optional<DatasetNames> names_;                             // of the run
  std::map<std::string, std::unique_ptr<OpenDataset>> datasets_;  // by their first spelling
  std::optional<int64_t> last_iteration_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_documents_command() {
  return std::make_unique<InspectDocumentsCommand>();
}

}  // namespace weft
