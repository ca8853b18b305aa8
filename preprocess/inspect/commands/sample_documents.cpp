#include "preprocess/inspect/commands/sample_documents.h"

#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/terminal/messages.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/text/dataset_text.h"

namespace weft {
namespace {

constexpr int64_t kShownTokens = 16;    // of the text
constexpr int64_t kShownDocuments = 3;  // the others are counted

// Returns the text between quotes, which it cannot end itself.
std::string in_quotes(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : escape_for_terminal(text)) {
    if (c == '"') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

SampleDocuments::Sample SampleDocuments::sample(int64_t sample_idx) const {
  const DatasetReader& reader = samples_.reader(sample_idx);
  Sample sample{.reader = &reader,
                .prefix = names_.first_spelling(reader.prefix().string()),
                .parts = samples_.parts(sample_idx)};
  std::stable_sort(
      sample.parts.begin(), sample.parts.end(),
      [](const SamplePart& a, const SamplePart& b) { return a.num_tokens > b.num_tokens; });
  return sample;
}

std::string SampleDocuments::line_of(int64_t sample_idx) {
  const Sample found = sample(sample_idx);
  std::string line;
  const int64_t num_shown = std::min(std::ssize(found.parts), kShownDocuments);
  for (int64_t i = 0; i < num_shown; ++i) {
    const SamplePart& part = found.parts[static_cast<size_t>(i)];
    line +=
        fmt::format("{}document {}, tokens {} to {} of {}{}", i == 0 ? "" : "; ", part.document_idx,
                    part.begin_token, part.begin_token + part.num_tokens,
                    found.reader->length(part.sequence_idx), source_of(found, part.document_idx));
    if (i == 0 && vocabulary_) line += ": " + in_quotes(text_of(found));
  }
  if (num_shown < std::ssize(found.parts))
    line += fmt::format("; and {} more", std::ssize(found.parts) - num_shown);
  return line;
}

std::vector<SampleDocuments::Document> SampleDocuments::documents_of(int64_t sample_idx) {
  const Sample found = sample(sample_idx);
  std::vector<Document> documents;
  for (const SamplePart& part : found.parts) {
    documents.push_back({.prefix = found.prefix,
                         .document_idx = part.document_idx,
                         .text = fmt::format("document {}{}", part.document_idx,
                                             source_of(found, part.document_idx))});
  }
  return documents;
}

// Returns ", of DATASET, FILE, byte N", each as far as it is needed and known.
std::string SampleDocuments::source_of(const Sample& sample, int64_t document_idx) {
  std::string text;
  // A document alone does not say of which of several datasets it is.
  if (names_.count() > 1) text += fmt::format(", of {}", escape_for_terminal(sample.prefix));
  if (const std::optional<SourceMap>& sources = sources_.of(*sample.reader))
    text += fmt::format(", {}", escape_for_terminal(sources->describe(document_idx)));
  return text;
}

void SampleDocuments::add_to(nlohmann::ordered_json& json, int64_t sample_idx) {
  const Sample found = sample(sample_idx);
  json["dataset"] = found.prefix;
  json["documents"] = nlohmann::ordered_json::array();
  for (const SamplePart& part : found.parts) {
    json["documents"].push_back({{"document", part.document_idx},
                                 {"sequence", part.sequence_idx},
                                 {"begin_token", part.begin_token},
                                 {"num_tokens", part.num_tokens}});
    add_source(json["documents"].back(), sources_.of(*found.reader), part.document_idx);
  }
  if (vocabulary_) json["text"] = text_of(found);
}

std::string SampleDocuments::text_of(const Sample& sample) const {
  const SamplePart& part = sample.parts.front();
  std::vector<int32_t> ids(static_cast<size_t>(std::min<int64_t>(part.num_tokens, kShownTokens)));
  sample.reader->copy_tokens(part.sequence_idx, part.begin_token, std::ssize(ids), ids.data());
  return decode_ids(ids, *vocabulary_) + (std::ssize(ids) < part.num_tokens ? "..." : "");
}

}  // namespace weft
