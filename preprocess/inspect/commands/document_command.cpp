// weft-data inspect document shows one document: where it came from, its ids and text.
#include <fmt/format.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/sidecars/documents.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

constexpr Layout kDocument = {
    "document {document}: {num_tokens} tokens in {num_sequences#sequence}\n"
    "[[  file: {input}\n]][[  byte: {offset_bytes} (of the line, decompressed)\n]][[  row: {row}\n]]"
    "[[{~no_source!}  file: not known, there is no source map beside the dataset\n]]"
    "[[  from: {origin}\n]]  ids: {ids}[[{~is_cut!} ...]]\n[[  text: {text}[[{~is_cut!} ...]]\n]]"};

class InspectDocumentCommand final : public Command {
 public:
  InspectDocumentCommand()
      : Command("inspect document",
                "print one document of a dataset: file and byte of its line, ids, text",
                "weft-data inspect document my_text_document 17") {}
  void declare(OptionSet& options) override {
    options_.declare(options);
    options.text("N", number_, "the document, counted from 0, empty ones included");
    declare_format(options, format_);
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
      throw UsageError(fmt::format("{}: there is no document {}, there are {} (from 0)",
                                   reader.prefix().string(), document_idx, documents.count()));
    }
    const auto sources = open_source_map_of(reader);
    const auto vocabulary = find_vocabulary(reader.prefix(), options_.vocabulary.files());
    const auto [first, last] = documents.sequences(document_idx);
    const int64_t num_tokens = documents.num_tokens(document_idx);
    const std::vector<int32_t> ids = documents.first_tokens(document_idx, max_tokens_);
    Record record = {
        {"document", document_idx}, {"num_tokens", num_tokens}, {"num_sequences", last - first}};
    add_source(record, sources, document_idx);
    if (!sources) record["~no_source"] = true;
    record["ids"] = ids;
    if (std::ssize(ids) < num_tokens) record["~is_cut"] = true;
    if (vocabulary) record["text"] = decode_ids(ids, *vocabulary);
    print_record(format_, std::move(record), kDocument);
    return 0;
  }

 private:
  PrefixOptions options_;
  std::string number_;
  Format format_ = Format::kText;
  int64_t max_tokens_ = 1'000'000;
};

}  // namespace

std::unique_ptr<Command> make_inspect_document_command() {
  return std::make_unique<InspectDocumentCommand>();
}

}  // namespace weft
