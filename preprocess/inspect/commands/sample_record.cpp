#include "preprocess/inspect/commands/sample_record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/html_pieces.h"

namespace weft {
namespace {

constexpr Layout kSample = {
    .text =
        "sample {sample} of {split}: {~num_tokens} tokens from {~num_documents#document}\n"
        "[[  {~place}\n]][[  {~note}\n]][[  {~piece}\n]]"
        "[[{~names_dataset!}  dataset {dataset}, its sample {dataset_sample}\n]]"
        "[[@parts:  document {document} (sequence {sequence}), tokens {begin_token} to "
        "{~end_token} of {~length}[[{unseen!}, without loss (--unsee)]]\n"
        "[[    from {~source}\n]][[    {~note}\n]]    ids: {~ids}\n[[    text: {~text}\n]]]]",
    .html =
        "<h2>sample {sample} of {split}</h2>\n"
        "<p>[[{~place}; ]]dataset {dataset}, its sample {dataset_sample}</p>\n"
        "[[<p>{~piece}</p>\n]][[<p>{~note}</p>\n]]"
        "[[@parts:<h3>document {document} (sequence {sequence}), tokens {begin_token} to "
        "{~end_token} of {~length}[[{unseen!}, without loss (--unsee)]]</h3>\n"
        "[[<p>from {~source}</p>\n]][[<p>{~note}</p>\n]][[<pre>{~text|}</pre>\n]]"
        "<details><summary>{num_tokens#id}</summary>{~ids}</details>\n]]"};

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 0}h3{font-size:.95rem;margin:.8rem 0 0}"
    "p{margin:0;color:#666}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem;margin:.3rem 0;"
    "font:13px/1.5 ui-monospace,monospace}details{color:#666}";

// Says which part of a sample a curriculum trains; nothing where that is all of it.
std::string piece_text(const LengthCurriculum::Row& row, int64_t whole) {
  if (row.length == whole) return "";
  const std::string text = fmt::format("tokens {} to {} of {} by the curriculum", row.begin,
                                       row.begin + row.length + 1, whole + 1);
  if (row.num_repeated == 0) return text;
  return text + fmt::format("; the first {} were trained before, and have no loss",
                            counted(row.num_repeated, "token"));
}

}  // namespace

Record SampleRecords::part_record(const DatasetReader& reader, const SamplePart& part) {
  Record record = {{"document", part.document_idx}, {"sequence", part.sequence_idx}};
  add_tokens(record, part);
  record["~length"] = reader.length(part.sequence_idx);
  add_source(record, sources_.of(reader), part.document_idx);
  return record;
}

void SampleRecords::print(Format format, const std::string& split_name, int64_t sample_idx,
                          const SamplePlace& place, const LossNote* note) {
  const bool is_for_people = format != Format::kJsonl;
  const DatasetReader& reader = samples_.reader(sample_idx);
  const LengthCurriculum::Row row = samples_.row(sample_idx);
  const BlendedDataset::Place in_dataset = samples_.locate(sample_idx);
  const std::vector<SamplePart> parts = samples_.parts(sample_idx);
  const std::vector<int32_t> ids = samples_.tokens(sample_idx);
  Record record = {{"sample", sample_idx}, {"split", split_name}};
  add_place(record, place);
  if (note) record.update(note->sample);
  record["dataset"] = reader.prefix().string();
  record["dataset_sample"] = in_dataset.sample_idx;
  if (!samples_.are_whole()) {
    record["begin_in_sample"] = row.begin;
    record["num_repeated"] = row.num_repeated;
  }
  Record list = Record::array();
  size_t begin = 0;  // of the part in the ids
  for (size_t i = 0; i < parts.size(); ++i) {
    Record& part = list.emplace_back(part_record(reader, parts[i]));
    if (samples_.is_unseen(sample_idx, parts[i])) part["unseen"] = true;
    if (note) part.update(note->parts[i]);
    const std::span of_part =
        std::span(ids).subspan(begin, static_cast<size_t>(parts[i].num_tokens));
    begin += of_part.size();
    if (!is_for_people) continue;
    part["~ids"] = fmt::format("{}", fmt::join(of_part, " "));
    if (!vocabulary_) continue;
    std::string text;
    append_decoded(text, of_part, *vocabulary_);
    part["~text"] = std::move(text);
  }
  record["parts"] = std::move(list);
  if (!is_for_people) {
    record["ids"] = ids;
    if (vocabulary_) record["text"] = decode_ids(ids, *vocabulary_);
  }
  record["~num_tokens"] = ids.size();
  record["~num_documents"] = parts.size();
  const std::string piece = piece_text(row, samples_.dataset().sequence_length());
  if (!piece.empty()) record["~piece"] = piece;
  // A document alone does not name one of several datasets.
  if (names_.count() > 1 || samples_.dataset().is_blend() || in_dataset.sample_idx != sample_idx)
    record["~names_dataset"] = true;
  print_record(format, std::move(record), kSample);
}

void SampleRecords::add_documents(Record& record, int64_t sample_idx) {
  constexpr int64_t kShownTokens = 16, kShownDocuments = 3;
  const DatasetReader& reader = samples_.reader(sample_idx);
  const std::string& prefix = names_.first_spelling(reader.prefix().string());
  std::vector<SamplePart> parts = samples_.parts(sample_idx);
  std::stable_sort(parts.begin(), parts.end(), [](const SamplePart& a, const SamplePart& b) {
    return a.num_tokens > b.num_tokens;
  });
  record["dataset"] = prefix;
  Record documents = Record::array();
  for (const SamplePart& part : parts) {
    Record& document = documents.emplace_back(part_record(reader, part));
    if (names_.count() > 1) document["~dataset"] = prefix;
    if (std::ssize(documents) <= kShownDocuments) document["~is_shown"] = true;
  }
  if (std::ssize(parts) > kShownDocuments)
    record["~num_more"] = std::ssize(parts) - kShownDocuments;
  record["documents"] = std::move(documents);
  if (!vocabulary_) return;
  const SamplePart& first = parts.front();
  std::vector<int32_t> ids(static_cast<size_t>(std::min(first.num_tokens, kShownTokens)));
  reader.copy_tokens(first.sequence_idx, first.begin_token, std::ssize(ids), ids.data());
  const std::string text =
      decode_ids(ids, *vocabulary_) + (std::ssize(ids) < first.num_tokens ? "..." : "");
  record["documents"].front()["~text"] = text;
  record["text"] = text;
}

void print_page_head(Format format, const std::string& title) {
  if (format != Format::kHtml) return;
  const std::string text = escaped(title);
  fmt::print("{}<h1>{}</h1>\n", html_head(text, kStyle, "weft-data inspect samples"), text);
}

void print_page_end(Format format) {
  if (format == Format::kHtml) fmt::print("</body>\n</html>\n");
}

}  // namespace weft
