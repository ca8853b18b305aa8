// weft-data report shows what a dataset is made of, and what in it looks wrong.
#include <fmt/format.h>

#include <cstdio>

#include "indexed_dataset/beside/output_conflicts.h"
#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/prefix_options.h"
#include "preprocess/report/gather_report.h"
#include "preprocess/report/report_labels.h"

namespace weft {
namespace {

class ReportCommand final : public Command {
 public:
  ReportCommand()
      : Command(
            "report",
            "lengths, duplicates, repetition, bad lines and domains of a dataset, as a page or as "
            "JSON") {}
  void declare(OptionSet& options) override {
    options_.declare(options);
    options.text("--output", output_, "FILE.html or FILE.json; without it: a summary is printed");
    threads_.declare(options);
  }
  void validate(OptionSet& options) const override {
    options_.validate(options);
    if (!output_.empty() && !report_format(output_))
      options.problem("--output: '" + output_ + "' ends in neither .html nor .json");
  }

  int run(const OptionSet&) override {
    ReportOptions report_options;
    report_options.vocab_file = options_.vocabulary.vocab_file;
    report_options.merge_file = options_.vocabulary.merge_file;
    report_options.num_threads = threads_.resolved();
    const std::filesystem::path prefix = without_suffix(options_.prefix);
    if (!output_.empty()) {
      guard_outputs({prefix}, {}, {output_}, {});
      write_report(prefix, output_, report_options);
      fmt::print("wrote {}\n", escape_message(output_));
      return 0;
    }
    print_summary(gather_report(prefix, report_options));
    return 0;
  }

 private:
  static void print_summary(const DataReport& report) {
    fmt::print("verdict: {}\n", verdict_of(report));
    fmt::print("documents: {} ({} of them empty), tokens: {}\n", report.num_documents,
               report.num_empty_documents, report.num_tokens);
    fmt::print("tokens of a document: shortest {}, median {}, longest {}\n", report.min_tokens,
               report.median_tokens, report.max_tokens);
    if (report.num_text_bytes.value_or(0) > 0) {
      fmt::print(
          "tokens per byte of text: {:.4f}\n",
          static_cast<double>(report.num_tokens) / static_cast<double>(*report.num_text_bytes));
    }
    if (report.num_bad_lines) fmt::print("bad lines: {}\n", *report.num_bad_lines);
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
                 escape_for_terminal(first_characters(document.beginning, kShownCharacters)));
    }
  }

  PrefixOptions options_;
  std::string output_;
  ThreadsOption threads_;
};

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace weft
