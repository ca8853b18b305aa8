// weft-data inspect document shows one document: where it came from, its ids and text.
#include <fmt/format.h>

#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

class InspectDocumentCommand final : public Command {
 public:
  InspectDocumentCommand()
      : Command("inspect document",
                "print one document of a dataset: file and byte of its line, ids, text") {}
  void declare(OptionSet& options) override {
    options_.declare(options);
    options.text("N", number_, "the document, counted from 0, empty ones included");
    declare_format(options, as_json_);
    options.integer("--max-tokens", max_tokens_, "of longer documents only these many are shown",
                    1);
  }
  void validate(OptionSet& options) const override {
    options_.validate(options);
    if (parse_int64(number_).value_or(-1) < 0)
      options.problem("give the number of the document, from 0, behind the dataset");
  }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    const Documents documents(reader);
    const int64_t document_idx = *parse_int64(number_);
    if (document_idx >= documents.count()) {
      throw std::invalid_argument(fmt::format("{}: there is no document {}, there are {} (from 0)",
                                              reader.prefix().string(), document_idx,
                                              documents.count()));
    }
    const auto sources = open_source_map_of(reader);
    const auto vocabulary = find_vocabulary(reader.prefix(), options_.vocabulary.files());
    const auto [first, last] = documents.sequences(document_idx);
    const int64_t num_tokens = documents.num_tokens(document_idx), num_sequences = last - first;
    const std::vector<int32_t> ids = documents.first_tokens(document_idx, max_tokens_);
    const std::string text = vocabulary ? decode_ids(ids, *vocabulary) : "";
    if (as_json_) {
      nlohmann::ordered_json json = {
          {"document", document_idx}, {"num_tokens", num_tokens}, {"num_sequences", num_sequences}};
      add_source(json, sources, document_idx);
      json["ids"] = ids;
      if (vocabulary) json["text"] = text;
      print_line(json);
      return 0;
    }
    fmt::print("document {}: {} tokens in {}\n", document_idx, num_tokens,
               counted(num_sequences, "sequence"));
    print_source(sources, document_idx);
    const char* more = std::ssize(ids) < num_tokens ? " ..." : "";
    fmt::print("  ids: {}{}\n", fmt::join(ids, " "), more);
    if (vocabulary) fmt::print("  text: {}{}\n", escape_for_terminal(text), more);
    return 0;
  }

 private:
  static void print_source(const std::optional<SourceMap>& sources, int64_t document_idx) {
    if (!sources) {
      fmt::print("  file: not known, there is no source map beside the dataset\n");
      return;
    }
    const SourceEntry entry = sources->entry(document_idx);
    fmt::print("  file: {}\n  byte: {} (of the line, decompressed)\n",
               escape_for_terminal(sources->inputs()[entry.input_idx]), entry.offset_bytes);
    if (!entry.origin.is_empty())
      fmt::print("  from: {}\n", escape_for_terminal(entry.origin.view()));
  }

  PrefixOptions options_;
  std::string number_;
  bool as_json_ = false;
  int64_t max_tokens_ = 1'000'000;
};

}  // namespace

std::unique_ptr<Command> make_inspect_document_command() {
  return std::make_unique<InspectDocumentCommand>();
}

}  // namespace weft
