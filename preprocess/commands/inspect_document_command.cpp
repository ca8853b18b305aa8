// weft-data inspect document shows one document of a dataset: where it came from, its ids and text.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/pair/reader.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/messages.h"
#include "preprocess/datasets/dataset_text.h"
#include "preprocess/datasets/source_map.h"
#include "preprocess/terminal/prefix_options.h"
#include "preprocess/terminal/terminal_text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

class InspectDocumentCommand final : public Command {
 public:
  std::string name() const override { return "inspect document"; }
  std::string description() const override {
    return "print one document of a dataset: file and byte of its line, ids, text";
  }
  void declare(OptionSet& options) override {
    options_.declare(options);
    options.positional("N", number_, "the document, counted from 0, empty ones included");
    options.choice("--format", format_, {"text", "jsonl"},
                   "for people, text escaped for terminals; or one JSON object");
    options.integer("--max-tokens", max_tokens_, "of longer documents only these many are shown",
                    1);
  }
  void validate(OptionSet& options) const override {
    options_.validate(options);
    const auto number = parse_int64(number_);
    if (!number || *number < 0)
      options.problem("give the number of the document, from 0, behind the dataset");
  }

  int run(const OptionSet&) override {
    const DatasetReader reader(without_suffix(options_.prefix));
    const int64_t document_idx = *parse_int64(number_);
    const auto [first, last] = sequences_of(reader, document_idx);
    const auto sources = open_source_map_of(reader);
    const auto vocabulary = find_dataset_vocabulary(reader.prefix(), options_.vocabulary.vocab_file,
                                                    options_.vocabulary.merge_file);
    if (!vocabulary) {
      print_message(
          "the dataset's vocabulary was not found: only ids are shown (--vocab-file, "
          "--merge-file)");
    }
    int64_t num_tokens = 0;
    std::vector<int32_t> ids;
    for (int64_t k = first; k < last; ++k) {
      const int64_t length = reader.length(k);
      const int64_t count = std::min(length, max_tokens_ - std::ssize(ids));
      num_tokens += length;
      if (count <= 0) continue;
      ids.resize(ids.size() + static_cast<size_t>(count));
      reader.copy_tokens(k, 0, count, ids.data() + ids.size() - count);
    }
    const Document document{document_idx, last - first, num_tokens, ids};
    format_ == "jsonl" ? print_json(document, sources, vocabulary.get())
                       : print_text(document, sources, vocabulary.get());
    return 0;
  }

 private:
  struct Document {
    int64_t document_idx, num_sequences, num_tokens;
    const std::vector<int32_t>& ids;  // the first tokens
  };

  // Returns the document's range of sequences. In old files without bounds each sequence is a
  // document.
  static std::pair<int64_t, int64_t> sequences_of(const DatasetReader& reader,
                                                  int64_t document_idx) {
    const bool has_bounds = reader.num_documents() > 0;
    const int64_t count = has_bounds ? reader.num_documents() : reader.num_sequences();
    if (document_idx >= count) {
      throw std::invalid_argument(fmt::format("{}: there is no document {}, there are {} (from 0)",
                                              reader.prefix().string(), document_idx, count));
    }
    if (!has_bounds) return {document_idx, document_idx + 1};
    const int64_t first = reader.document_bound(document_idx);
    const int64_t last = reader.document_bound(document_idx + 1);
    if (first < 0 || last < first || last > reader.num_sequences()) {
      throw std::runtime_error(
          fmt::format("{}.idx: the bounds of document {} are {} and {}: the "
                      "index is damaged (weft-data verify)",
                      reader.prefix().string(), document_idx, first, last));
    }
    return {first, last};
  }

  void print_text(const Document& document, const std::optional<SourceMap>& sources,
                  const Vocabulary* vocabulary) const {
    fmt::print("document {}: {} tokens in {} sequence{}\n", document.document_idx,
               document.num_tokens, document.num_sequences, document.num_sequences == 1 ? "" : "s");
    if (sources) {
      const SourceEntry entry = sources->entry(document.document_idx);
      fmt::print("  file: {}\n  byte: {} (of the line, decompressed)\n",
                 escape_for_terminal(sources->inputs()[entry.input_idx]), entry.offset_bytes);
      if (!entry.origin.is_empty())
        fmt::print("  from: {}\n", escape_for_terminal(entry.origin.view()));
    } else {
      fmt::print("  file: not known, there is no source map beside the dataset\n");
    }
    const char* more = std::ssize(document.ids) < document.num_tokens ? " ..." : "";
    fmt::print("  ids: {}{}\n", fmt::join(document.ids, " "), more);
    if (vocabulary != nullptr) {
      fmt::print("  text: {}{}\n", escape_for_terminal(decode_ids(document.ids, *vocabulary)),
                 more);
    }
  }

  void print_json(const Document& document, const std::optional<SourceMap>& sources,
                  const Vocabulary* vocabulary) const {
    Json json = {{"document", document.document_idx},
                 {"num_tokens", document.num_tokens},
                 {"num_sequences", document.num_sequences}};
    if (sources) {
      const SourceEntry entry = sources->entry(document.document_idx);
      json["input"] = sources->inputs()[entry.input_idx];
      json["offset_bytes"] = entry.offset_bytes;
      if (!entry.origin.is_empty()) json["origin"] = entry.origin.view();
    }
    json["ids"] = document.ids;
    if (vocabulary != nullptr) json["text"] = decode_ids(document.ids, *vocabulary);
    // On a terminal everything but ASCII is escaped, as by inspect samples: it would obey some of
    // it.
    const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
    fmt::print("{}\n", json.dump(-1, ' ', is_terminal, Json::error_handler_t::replace));
  }

  PrefixOptions options_;
  std::string number_, format_ = "text";
  int64_t max_tokens_ = 1'000'000;
};

}  // namespace

std::unique_ptr<Command> make_inspect_document_command() {
  return std::make_unique<InspectDocumentCommand>();
}

}  // namespace weft
