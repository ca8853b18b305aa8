// weft-data info prints what a dataset holds; weft-data report shows what it is made of, and what
// in it looks wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/merge/drop_list.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/sidecars/output_conflicts.h"
#include "indexed_dataset/format/soundness/kth_smallest.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/progress.h"
#include "preprocess/inspect/report/duplicate_documents.h"
#include "preprocess/inspect/report/gather_report.h"
#include "preprocess/inspect/report/report_labels.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

class InfoCommand final : public Command {
 public:
  InfoCommand()
      : Command("info", "print what a dataset holds",
                "weft-data info my_text_document --documents 5") {}

  void declare(OptionSet& options) override {
    options_.declare(options);
    options.integer("--documents", num_documents_, "how many of the first documents are printed",
                    0);
  }
  void validate(OptionSet& options) const override { options_.validate(options); }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    print_counts(reader);
    const auto vocabulary = find_dataset_vocabulary(reader.prefix(), options_.vocabulary.files());
    const int64_t num_shown = std::min(num_documents_, reader.num_sequences());
    if (!vocabulary && num_shown > 0) {
      fmt::print(
          "the dataset's vocabulary was not found: documents are shown as ids (--tokenizer)\n");
    }
    for (int64_t i = 0; i < num_shown; ++i) print_sequence(reader, i, vocabulary.get());
    return 0;
  }

 private:
  static void print_counts(const DatasetReader& reader) {
    const int64_t num_sequences = reader.num_sequences();
    fmt::print("{}.idx: version 1, tokens are {}\n", escape_message(reader.prefix().string()),
               name_of(reader.token_type()));
    fmt::print("documents: {} ({} of them empty), sequences: {}, tokens: {} ({} bytes)\n",
               reader.num_documents(), std::max<int64_t>(0, reader.num_documents() - num_sequences),
               num_sequences, reader.num_tokens(),
               reader.num_tokens() * size_bytes(reader.token_type()));
    if (num_sequences == 0) return;
    const SequenceLengths lengths = reader.lengths();
    for (int64_t i = 0; i < num_sequences; ++i) {
      if (lengths[i] >= 0) continue;
      throw std::runtime_error(
          fmt::format("{}.idx: length of sequence {} is {}: the index is damaged",
                      reader.prefix().string(), i, lengths[i]));
    }
    const auto kth_length = [&](int64_t k) {
      return kth_smallest(num_sequences, k, [&](int64_t i) { return lengths[i]; });
    };
    fmt::print("length in tokens: min {}, median {}, mean {:.1f}, max {}\n", kth_length(0),
               kth_length(num_sequences / 2),
               static_cast<double>(reader.num_tokens()) / static_cast<double>(num_sequences),
               kth_length(num_sequences - 1));
  }

  static void print_sequence(const DatasetReader& reader, int64_t i, const Vocabulary* vocabulary) {
    // So many are enough to recognise a document; `inspect` shows the rest.
    constexpr int64_t kShownTokens = 64;
    const int64_t num_tokens = std::min<int64_t>(reader.length(i), kShownTokens);
    std::vector<int32_t> ids(static_cast<size_t>(num_tokens));
    reader.copy_tokens(i, 0, num_tokens, ids.data());
    const std::string text = vocabulary != nullptr
                                 ? escape_for_terminal(decode_ids(ids, *vocabulary))
                                 : fmt::format("{}", fmt::join(ids, " "));
    fmt::print("document {} ({} tokens): {}{}\n", reader.document_of_sequence(i), reader.length(i),
               text, num_tokens < reader.length(i) ? " ..." : "");
  }

  PrefixOptions options_;
  int64_t num_documents_ = 3;
};

class ReportCommand final : public Command {
 public:
  ReportCommand()
      : Command(
            "report",
            "lengths, duplicates, repetition, bad lines and domains of a dataset, as a page or as "
            "JSON",
            "weft-data report my_text_document --output my.html") {}
  void declare(OptionSet& options) override {
    options.texts(
        "PREFIX", prefixes_,
        "the dataset: its path without .bin and .idx; with --duplicates all datasets that "
        "will be merged, in that order");
    vocabulary_.declare(options, "the one in the dataset's manifest");
    options.text("--duplicates", duplicates_,
                 "instead of a report: writes the list of all documents that are equal to an "
                 "earlier one to this file, for merge --drop; takes 16 bytes of memory a document");
    options.text("--output", output_, "FILE.html or FILE.json; without it: a summary is printed");
    threads_.declare(options);
    options.flag("--overwrite", overwrite_, "replace a file that is no report, too");
  }
  void validate(OptionSet& options) const override {
    vocabulary_.validate(options);
    if (prefixes_.empty()) options.problem("give the dataset: its path without .bin and .idx");
    if (prefixes_.size() > 1 && duplicates_.empty())
      options.problem("a report is about one dataset; several are for --duplicates");
    if (!duplicates_.empty() && !output_.empty())
      options.problem("--duplicates writes a list, and --output a report: give one of them");
    if (!output_.empty() && !report_format(output_))
      options.problem("--output: '" + output_ + "' ends in neither .html nor .json");
  }

  int run(const OptionSet&) override {
    if (!duplicates_.empty()) return list_duplicates();
    ReportOptions report_options;
    report_options.tokenizer = vocabulary_.files();
    report_options.num_threads = threads_.resolved();
    const std::filesystem::path prefix = without_suffix(prefixes_[0]);
    if (!output_.empty()) {
      guard_outputs({prefix}, {}, {output_}, {});
      if (!overwrite_) check_is_report(output_, "give another name, or --overwrite");
      {
        ProgressLine line("tokens");
        report_options.on_progress = line.report();
        write_report(prefix, output_, report_options);
      }
      fmt::print("wrote {}\n", escape_message(output_));
      return 0;
    }
    print_summary([&] {
      ProgressLine line("tokens");
      report_options.on_progress = line.report();
      return gather_report(prefix, report_options);
    }());
    return 0;
  }

 private:
  int list_duplicates() const {
    std::vector<std::filesystem::path> prefixes;
    std::string names;
    for (const std::string& given : prefixes_) {
      prefixes.push_back(without_suffix(given));
      names += ' ' + prefixes.back().string();
    }
    guard_outputs(prefixes, {}, {duplicates_}, {});
    if (std::filesystem::exists(duplicates_) && !is_drop_list(duplicates_) && !overwrite_) {
      throw UsageError("'" + duplicates_ +
                       "' is there, and is no list of duplicates; give another name, or "
                       "--overwrite");
    }
    int64_t num_compared = 0;
    const auto begin = [&](int64_t num_documents) {
      num_compared = num_documents;
      print_message(fmt::format("comparing {} of {}: {} of memory",
                                counted(num_documents, "document"),
                                counted(std::ssize(prefixes), "dataset"),
                                with_prefix(16 * static_cast<double>(num_documents), "B")));
    };
    const auto [list, num_tokens] = find_duplicate_documents(prefixes, threads_.resolved(), begin);
    write_file_atomically(duplicates_, to_text(list));
    const int64_t num_duplicates = std::ssize(list.duplicates);
    fmt::print("wrote {}: {} with {} tokens among {} documents ({})\n", escape_message(duplicates_),
               counted(num_duplicates, "duplicate"), num_tokens, num_compared,
               percent(share_of(num_duplicates, num_compared)));
    if (num_duplicates > 0) {
      print_message(
          fmt::format("weft-data merge{} --drop {} --output-prefix OUTPUT leaves them out", names,
                      duplicates_));
    }
    return 0;
  }

  static void print_summary(const DataReport& report) {
    fmt::print("verdict: {}\n", verdict_of(report));
    for (const std::string& finding : findings_of(report)) fmt::print("  {}\n", finding);
    fmt::print("documents: {} ({} of them empty), tokens: {}\n", report.num_documents,
               report.num_empty_documents, report.num_tokens);
    fmt::print(
        "tokens of a document: shortest {}, median {}, 90 % up to {}, 99 % up to {}, longest {}\n",
        report.min_tokens, report.median_tokens, report.p90_tokens, report.p99_tokens,
        report.max_tokens);
    if (report.num_text_bytes.value_or(0) > 0) {
      fmt::print(
          "tokens per byte of text: {:.4f}\n",
          static_cast<double>(report.num_tokens) / static_cast<double>(*report.num_text_bytes));
    }
    if (report.num_without_end) {
      fmt::print("documents without an end-of-document token: {}, with one inside: {}\n",
                 *report.num_without_end, *report.num_with_end_inside);
    }
    if (report.num_bad_lines) fmt::print("bad lines: {}\n", *report.num_bad_lines);
    for (const auto& [reason, count] : report.left_out_by_reason)
      fmt::print("left out by --where: {} ({})\n", count, escape_for_terminal(reason));
    fmt::print("exact duplicates: {} groups, {} superfluous documents with {} tokens\n",
               report.duplicates.num_groups, report.duplicates.num_documents,
               report.duplicates.num_tokens);
    if (report.origins) print_origins(*report.origins, report.num_tokens);
    print_table("most repeated characters", report.most_repeated_characters);
    print_table("most repeated tokens", report.most_repeated_tokens);
    print_table("longest", report.longest);
    for (const std::string& note : report.notes)
      fmt::print("note: {}\n", escape_for_terminal(note));
  }

  static void print_origins(const OriginCounts& counts, int64_t num_tokens) {
    constexpr size_t kShown = 5;
    fmt::print("domains and sources: {} different ones, {} documents name none\n",
               counts.num_origins, counts.num_documents_without);
    for (size_t i = 0; i < std::min(kShown, counts.largest.size()); ++i) {
      const OriginCount& count = counts.largest[i];
      fmt::print("from {}: {} documents, {} tokens ({})\n", escape_for_terminal(count.origin),
                 count.num_documents, count.num_tokens,
                 percent(share_of(count.num_tokens, num_tokens)));
    }
  }

  static void print_table(const char* title, const std::vector<ReportedDocument>& table) {
    // So many fit a screen with everything else; the files have more.
    constexpr size_t kShown = 3, kShownCharacters = 60;
    for (size_t i = 0; i < std::min(kShown, table.size()); ++i) {
      const ReportedDocument& document = table[i];
      fmt::print("{}: document {}, {} tokens{}{}: {}\n", title, document.document_idx,
                 document.num_tokens,
                 document.ratio > 0 ? ", " + percent(document.ratio) + " repeated" : "",
                 document.source.empty() ? "" : ", " + escape_for_terminal(document.source),
                 visible_beginning(document.beginning, kShownCharacters));
    }
  }

  std::vector<std::string> prefixes_;
  VocabularyOptions vocabulary_;
  std::string output_, duplicates_;
  ThreadsOption threads_;
  bool overwrite_ = false;
};

}  // namespace

std::unique_ptr<Command> make_info_command() { return std::make_unique<InfoCommand>(); }

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace weft
