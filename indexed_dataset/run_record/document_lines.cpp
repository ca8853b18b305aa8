#include "indexed_dataset/run_record/document_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"

namespace weft {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

// Leaves what stands behind the first `mark`, or nothing.
bool drop_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + mark.size());
  return at != std::string_view::npos;
}

// Returns true for the lines that inspect prints around those which name documents.
bool is_beside_documents(std::string_view line) {
  constexpr std::string_view kBegins[] = {"iteration ",
                                          "evaluation after iteration ",
                                          "evaluation at the end of training",
                                          "loss ",
                                          "tokens ",
                                          "in no other sample so far",
                                          "ids: ",
                                          "text: ",
                                          "training: ",
                                          "validation: ",
                                          "test: ",
                                          "worst in sample ",
                                          "repeated characters ",
                                          "its samples are not told: ",
                                          "no sample stands out",
                                          "none of its samples stands out",
                                          "file: ",
                                          "byte: "};
  for (const std::string_view begin : kBegins) {
    if (line.starts_with(begin)) return true;
  }
  if (drop_prefix(line, "sample ")) return take_number(line) && line.starts_with(": tokens ");
  return drop_prefix(line, "in ") && take_number(line) && drop_prefix(line, " other sample") &&
         (line.starts_with(" so far") || line.starts_with("s so far"));
}

// "web.jsonl, byte 11450 (from ORIGIN)" or "web.jsonl:11450".
std::optional<SourceLine> find_source(std::string_view line) {
  drop_prefix(line, "from ");
  constexpr std::string_view kByte = ", byte ";
  // The corpus decides what the origin is, so the first number counts.
  for (size_t at = line.find(kByte); at != line.npos; at = line.find(kByte, at + 1)) {
    std::string_view rest = line.substr(at + kByte.size());
    const auto offset = take_number(rest);
    if (at > 0 && offset && (rest.empty() || rest.starts_with(" (from ")))
      return SourceLine{std::string(line.substr(0, at)), *offset};
  }
  const size_t colon = line.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto offset = parse_int64(std::string(line.substr(colon + 1)));
  if (!offset || *offset < 0) return std::nullopt;
  return SourceLine{std::string(line.substr(0, colon)), *offset};
}

}  // namespace

void DocumentLines::add(std::string_view line) {
  const std::optional<NamedDocument> before = std::exchange(document_before_, std::nullopt);
  line = trimmed(line);
  if (line.empty() || line.starts_with('#')) return;
  if (line.starts_with('{')) return add_json(std::string(line));
  if (add_printed(line) || repeats_source(line, before)) return;
  const size_t space = line.find_last_of(" \t");
  const auto number =
      space == line.npos ? std::nullopt : parse_int64(std::string(line.substr(space + 1)));
  // "loss 4" may be a document of a dataset of this name.
  const bool is_short = number && line.find_first_of(" \t") == space;
  if (is_beside_documents(line) &&
      !(is_short && documents_.is_dataset(std::string(line.substr(0, space)))))
    return;
  if (const auto source = find_source(line)) return documents_.add_line(*source);
  if (number) {
    documents_.add(documents_.dataset_named(std::string(trimmed(line.substr(0, space)))), *number);
    return;
  }
  refuse("it names no document; give PREFIX NUMBER, FILE:OFFSET, or what weft-data inspect prints");
}

// Takes the lines of inspect that name documents, or the dataset of those below. Returns false for other lines.
bool DocumentLines::add_printed(std::string_view line) {
  std::string_view rest = line;
  if (drop_prefix(rest, "text that stands out: ")) return add_entries(rest);
  if (drop_prefix(rest, "score ")) return drop_until(rest, ": ") && add_entries(rest);
  if (drop_prefix(rest, "sample ") && take_number(rest)) {
    if (rest.starts_with(" of ")) {  // "sample 5 of train: 65 tokens from 2 documents"
      dataset_of_sample_.reset();
      return true;
    }
    // "sample 5: loss 8.49, z 126.0; document 77, tokens ..." or "sample 5, iteration 9, ...: document 77 of ..."
    const std::string_view mark = rest.starts_with(": loss ") ? "; " : ": ";
    return drop_until(rest, mark) && add_entries(rest);
  }
  rest = line;
  if (drop_prefix(rest, "dataset ") && rest.find(", its sample ") != std::string_view::npos) {
    dataset_of_sample_ =
        documents_.dataset_named(std::string(rest.substr(0, rest.rfind(", its sample "))));
    return true;
  }
  return add_entries(line);
}

// "document 31 of PREFIX: ...", "document 31 (sequence 31), ...", or a list: "document 31, of PREFIX, FILE, byte N (...);
// document 40, tokens 0 to 9 of 70, of PREFIX, FILE, byte N: "text"; and 2 more".
bool DocumentLines::add_entries(std::string_view entries) {
  int64_t count = 0;
  NamedDocument document;
  while (drop_prefix(entries, "document ")) {
    const auto number = take_number(entries);
    if (!number) return false;
    document = add_entry(entries, *number);
    ++count;
  }
  if (count == 1) document_before_ = document;
  return count > 0;
}

// Takes the rest of one document, up to the next one.
NamedDocument DocumentLines::add_entry(std::string_view& rest, int64_t document_idx) {
  if (drop_prefix(rest, " of ")) {
    const int64_t dataset_idx = documents_.take_dataset(rest, ":,");
    rest = {};
    return documents_.add(dataset_idx, document_idx);
  }
  if (rest.starts_with(" (sequence ")) {
    rest = {};
    return documents_.add(dataset_of_sample_ ? *dataset_of_sample_ : documents_.only_dataset(),
                          document_idx);
  }
  if (drop_prefix(rest, ", tokens ")) {
    for (const std::string_view word : {"", " to ", " of "}) {
      if (!drop_prefix(rest, word) || !take_number(rest))
        refuse("no range of tokens stands behind the document");
    }
  }
  const bool names_dataset = drop_prefix(rest, ", of ");
  const NamedDocument document = documents_.add(
      names_dataset ? documents_.take_dataset(rest, ":,;(") : documents_.only_dataset(),
      document_idx);
  drop_source_and_text(rest, document);
  return document;
}

// The source, and the text behind it, are made by the corpus: they are known, or quoted, so that no word of them is
// taken for a document.
void DocumentLines::drop_source_and_text(std::string_view& rest, const NamedDocument& document) {
  const OpenDataset& dataset = documents_.open(document.dataset_idx);
  std::string source;
  if (dataset.sources)
    source = escape_for_terminal(dataset.sources->describe(document.document_idx));
  const std::string_view next = rest.substr(0, rest.find("; document "));
  if (dataset.sources && !drop_prefix(rest, ", " + source) && next.find(", byte ") != next.npos) {
    refuse_number(document, source);
  }
  if (drop_prefix(rest, ": \"")) {
    while (!rest.empty() && rest.front() != '"')
      rest.remove_prefix(std::min<size_t>(rest.starts_with('\\') ? 2 : 1, rest.size()));
  }
  constexpr std::string_view kNext = "; document ";
  const size_t end = rest.find(kNext);
  rest.remove_prefix(end == rest.npos ? rest.size() : end + 2);
}

// Returns true for the line below a document that tells where it came from.
bool DocumentLines::repeats_source(std::string_view line,
                                   const std::optional<NamedDocument>& before) {
  if (!before || !drop_prefix(line, "from ")) return false;
  const OpenDataset& dataset = documents_.open(before->dataset_idx);
  if (!dataset.sources) return false;
  const std::string source = escape_for_terminal(dataset.sources->describe(before->document_idx));
  if (line == source) return true;
  refuse_number(*before, source);
}

void DocumentLines::refuse_number(const NamedDocument& document, const std::string& source) const {
  refuse(fmt::format(
      "document {} of {} came from {}, and not from there: the number is of another dataset",
      document.document_idx, documents_.names().prefix(document.dataset_idx), source));
}

void DocumentLines::add_json(const std::string& line) {
  try {
    const auto json = parse_json<Json>(line);
    const Json dataset = json.value("dataset", Json());
    if (json.contains("parts")) {  // samples
      for (const Json& part : json["parts"]) add_object(part, dataset);
    } else if (json.contains("grad_norm_z")) {  // spikes; without "samples" none are known
      for (const Json& sample : json.value("samples", Json::array())) {
        for (const Json& document : sample.at("documents"))
          add_object(document, sample.at("dataset"));
      }
    } else {
      add_object(json, dataset);
    }
  } catch (const Json::exception& error) {
    refuse(fmt::format("not an object with \"dataset\" and \"document\": {}", error.what()));
  } catch (const NotAnInteger& error) {
    refuse(error.what());
  }
}

void DocumentLines::add_object(const Json& object, const Json& dataset) {
  const NamedDocument document =
      documents_.add(dataset.is_null() ? documents_.only_dataset()
                                       : documents_.dataset_named(dataset.get<std::string>()),
                     json_integer_at(object, "document"));
  const std::optional<SourceMap>& sources = documents_.open(document.dataset_idx).sources;
  if (!sources || !object.contains("offset_bytes")) return;
  const SourceEntry entry = sources->entry(document.document_idx);
  if (object["offset_bytes"] == entry.offset_bytes &&
      object.at("input") == sources->inputs()[entry.input_idx])
    return;
  refuse_number(document, escape_for_terminal(sources->describe(document.document_idx)));
}

}  // namespace weft
