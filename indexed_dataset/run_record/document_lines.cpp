#include "indexed_dataset/run_record/document_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"

namespace weft {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

void add_object(const Json& object, const Json& dataset, NamedDocuments& documents) {
  const NamedDocument document =
      documents.add(dataset.is_null() ? documents.only_dataset()
                                      : documents.dataset_named(dataset.get<std::string>()),
                    json_integer_at(object, "document"));
  const std::optional<SourceMap>& sources = documents.open(document.dataset_idx).sources;
  if (!sources || !object.contains("offset_bytes")) return;
  const SourceEntry entry = sources->entry(document.document_idx);
  if (object["offset_bytes"] == entry.offset_bytes &&
      object.at("input") == sources->inputs()[entry.input_idx])
    return;
  refuse(fmt::format(
      "document {} of {} came from {}, and not from there: the number is of another dataset",
      document.document_idx, documents.names().prefix(document.dataset_idx),
      escape_for_terminal(sources->describe(document.document_idx))));
}

// Takes what a command of weft-data inspect prints with --format jsonl.
void add_json(const std::string& line, NamedDocuments& documents) {
  try {
    const auto json = parse_json<Json>(line);
    const Json dataset = json.value("dataset", Json());
    if (json.contains("parts")) {  // samples
      for (const Json& part : json["parts"]) add_object(part, dataset, documents);
    } else if (json.contains("grad_norm_z")) {  // spikes; without "samples" none are known
      for (const Json& sample : json.value("samples", Json::array())) {
        for (const Json& document : sample.at("documents"))
          add_object(document, sample.at("dataset"), documents);
      }
    } else {
      add_object(json, dataset, documents);
    }
  } catch (const Json::exception& error) {
    refuse(fmt::format("not an object with \"dataset\" and \"document\": {}", error.what()));
  } catch (const NotAnInteger& error) {
    refuse(error.what());
  }
}

// Returns the number behind the last character that is one of `marks`, and what stands before it.
struct NumberedName {
  std::string name;
  int64_t number = 0;
};
std::optional<NumberedName> find_number_behind(std::string_view line, const char* marks) {
  const size_t mark = line.find_last_of(marks);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string name(trimmed(line.substr(0, mark)));
  const auto number = parse_int64(std::string(line.substr(mark + 1)));
  if (name.empty() || !number) return std::nullopt;
  return NumberedName{name, *number};
}

}  // namespace

void add_documents_of_line(std::string_view line, NamedDocuments& documents) {
  line = trimmed(line);
  if (line.empty() || line.starts_with('#')) return;
  if (line.starts_with('{')) return add_json(std::string(line), documents);
  if (const auto document = find_number_behind(line, " \t")) {
    documents.add(documents.dataset_named(document->name), document->number);
  } else if (const auto source = find_number_behind(line, ":")) {
    documents.add_line({source->name, source->number});
  } else {
    refuse(
        "it names no document; give PREFIX NUMBER, FILE:OFFSET, or what weft-data inspect prints "
        "with --format jsonl");
  }
}

}  // namespace weft
