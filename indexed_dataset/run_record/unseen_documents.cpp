#include "indexed_dataset/run_record/unseen_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/base/terminal/text_pieces.h"
#include "indexed_dataset/run_record/named_documents.h"

namespace weft {
namespace {

using SortedJson = nlohmann::json;

[[noreturn]] void refuse_documents(const std::string& why) { throw UsageError(why); }

void add_object(const SortedJson& object, const SortedJson& dataset, NamedDocuments& documents) {
  const NamedDocument document =
      documents.add(dataset.is_null() ? documents.only_dataset()
                                      : documents.dataset_named(dataset.get<std::string>()),
                    json_integer_at(object, "document"));
  const std::optional<SourceMap>& sources = documents.open(document.dataset_idx).sources;
  const char* const place = object.contains("row") ? "row" : "offset_bytes";
  if (!sources || !object.contains(place)) return;
  const SourceEntry entry = sources->entry(document.document_idx);
  if (object[place] == entry.offset_bytes &&
      object.at("input") == sources->inputs()[entry.input_idx])
    return;
  refuse_documents(fmt::format(
      "document {} of {} came from {}, and not from there: the number is of another dataset",
      document.document_idx, documents.names().prefix(document.dataset_idx),
      escape_for_terminal(sources->describe(document.document_idx))));
}

// Takes what a command of weft-data inspect prints with --format jsonl.
void add_json(const std::string& line, NamedDocuments& documents) {
  try {
    const auto json = parse_json<SortedJson>(line);
    const SortedJson dataset = json.value("dataset", SortedJson());
    if (json.contains("parts")) {  // samples
      for (const SortedJson& part : json["parts"]) add_object(part, dataset, documents);
    } else if (json.contains("lm_loss")) {  // spikes; without "samples" none are known
      for (const SortedJson& sample : json.value("samples", SortedJson::array())) {
        for (const SortedJson& document : sample.at("documents"))
          add_object(document, sample.at("dataset"), documents);
      }
    } else {
      add_object(json, dataset, documents);
    }
  } catch (const SortedJson::exception& error) {
    refuse_documents(
        fmt::format("not an object with \"dataset\" and \"document\": {}", error.what()));
  } catch (const NotAnInteger& error) {
    refuse_documents(error.what());
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

// Adds the documents that a line names; blank lines and comments name none. Throws as
// NamedDocuments, and UsageError for any other line, and for an object whose document
// came from another line of the corpus than it says: then the number is of another dataset.
void add_documents_of_line(std::string_view line, NamedDocuments& documents) {
  line = trimmed(line);
  if (line.empty() || line.starts_with('#')) return;
  if (line.starts_with('{')) return add_json(std::string(line), documents);
  if (const auto document = find_number_behind(line, " \t")) {
    documents.add(documents.dataset_named(document->name), document->number);
  } else if (const auto source = find_number_behind(line, ":")) {
    documents.add_line({source->name, source->number});
  } else {
    refuse_documents(
        "it names no document; give PREFIX NUMBER, FILE:OFFSET, or what weft-data inspect prints "
        "with --format jsonl");
  }
}

}  // namespace

std::vector<SequenceRange> merged(std::vector<SequenceRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const SequenceRange& a, const SequenceRange& b) { return a.begin < b.begin; });
  std::vector<SequenceRange> merged;
  for (const SequenceRange& range : ranges) {
    if (range.begin >= range.end) continue;  // an empty document
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

bool UnseenSequences::contains(int64_t sequence_idx) const {
  const auto next = std::upper_bound(
      ranges_.begin(), ranges_.end(), sequence_idx,
      [](int64_t sequence, const SequenceRange& range) { return sequence < range.begin; });
  return next != ranges_.begin() && sequence_idx < std::prev(next)->end;
}

UnseenDocuments::UnseenDocuments(const std::filesystem::path& file,
                                 const std::vector<std::string>& prefixes,
                                 const std::filesystem::path& directory)
    : text_(read_text_file(file)), sha256_(sha256_of(text_)) {
  NamedDocuments named(prefixes, directory);
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text_.size();) {
    const size_t end = std::min(text_.find('\n', begin), text_.size());
    const std::string_view line = std::string_view(text_).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    try {
      add_documents_of_line(line, named);
    } catch (const UsageError& error) {
      throw std::runtime_error(fmt::format("{}, line {}: {}: {}", file.string(), line_number,
                                           line.substr(0, 200), error.what()));
    }
  }
  for (const auto& [dataset_idx, documents] : named.documents()) {
    std::vector<SequenceRange> ranges;
    for (const int64_t document : documents) {
      const auto [first, last] = named.open(dataset_idx).documents.sequences(document);
      ranges.push_back({first, last});
    }
    for (const std::string& spelling : named.names().spellings(dataset_idx))
      by_prefix_.emplace(spelling, UnseenSequences(ranges));
    num_documents_ += std::ssize(documents);
  }
  if (num_documents_ == 0)
    throw UsageError(fmt::format("--unsee {}: it names no document", file.string()));
}

const UnseenSequences* UnseenDocuments::find(const std::string& prefix) const {
  const auto found = by_prefix_.find(prefix);
  return found == by_prefix_.end() ? nullptr : &found->second;
}

std::string unsee_copy_name(const std::string& sha256) {
  return "unsee-" + sha256.substr(0, 16) + ".txt";
}

}  // namespace weft
