#include "preprocess/inspect/commands/sample_printer.h"

#include <fmt/format.h>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/text/dataset_text.h"
#include "preprocess/inspect/text/html_pieces.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<int32_t>;

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 0}h3{font-size:.95rem;margin:.8rem 0 0}"
    "p{margin:0;color:#666}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#f5f5f5;padding:.6rem;margin:.3rem 0;"
    "font:13px/1.5 ui-monospace,monospace}details{color:#666}";

// Text of a corpus with its lines as lines.
std::string escaped_lines(std::string_view text) {
  std::string html;
  while (true) {
    const size_t end = text.find('\n');
    html += escaped(text.substr(0, end));
    if (end == std::string_view::npos) return html;
    html += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace

struct SamplePrinter::Sample {
  int64_t sample_idx = 0;
  const SamplePlace& place;
  LengthCurriculum::Row row;
  BlendedDataset::Place in_dataset;
  const DatasetReader& reader;
  const std::optional<SourceMap>& sources;
  std::vector<SamplePart> parts;
  Ids ids;
  const LossNote* note = nullptr;

  // Calls use(part, ids of the part, what is said of its losses or "").
  template <typename Use>
  void for_each_part(const Use& use) const {
    auto next = ids.begin();
    for (size_t i = 0; i < parts.size(); ++i) {
      use(parts[i], Ids(next, next + parts[i].num_tokens), note ? note->part_texts[i] : "");
      next += parts[i].num_tokens;
    }
  }
};

void declare_sample_format(OptionSet& options, SampleFormat& format) {
  options.choice(
      "--format", format,
      {{"text", SampleFormat::kText},
       {"jsonl", SampleFormat::kJsonl},
       {"html", SampleFormat::kHtml}},
      "for people, text escaped for terminals; one line of JSON for each; or one page of HTML");
}

void print_page_head(SampleFormat format, const std::string& title) {
  if (format != SampleFormat::kHtml) return;
  const std::string text = escaped(title);
  fmt::print("{}<h1>{}</h1>\n", html_head(text, kStyle, "weft-data inspect samples"), text);
}

void print_page_end(SampleFormat format) {
  if (format == SampleFormat::kHtml) fmt::print("</body>\n</html>\n");
}

void SamplePrinter::print(int64_t sample_idx, const SamplePlace& place, const LossNote* note) {
  const DatasetReader& reader = samples_.reader(sample_idx);
  Sample sample{.sample_idx = sample_idx,
                .place = place,
                .row = samples_.row(sample_idx),
                .in_dataset = samples_.locate(sample_idx),
                .reader = reader,
                .sources = sources_.of(reader),
                .parts = samples_.parts(sample_idx),
                .ids = samples_.tokens(sample_idx),
                .note = note};
  switch (format_) {
    case SampleFormat::kText:
      return print_text(sample);
    case SampleFormat::kJsonl:
      return print_json(sample);
    case SampleFormat::kHtml:
      return print_html(sample);
  }
}

// Tells which part of a sample a curriculum trains, and nothing where it is all of it.
std::string SamplePrinter::piece_of(const Sample& sample) const {
  const auto& [sample_idx, begin, length, num_repeated] = sample.row;
  const int64_t whole = samples_.dataset().sequence_length();
  if (length == whole) return "";
  std::string text =
      fmt::format("tokens {} to {} of {} by the curriculum", begin, begin + length + 1, whole + 1);
  if (num_repeated > 0) {
    text += fmt::format("; the first {} were trained before, and have no loss",
                        counted(num_repeated, "token"));
  }
  return text;
}

const char* SamplePrinter::unseen_text(const Sample& sample, const SamplePart& part) const {
  return samples_.is_unseen(sample.sample_idx, part) ? ", without loss (--unsee)" : "";
}

void SamplePrinter::print_text(const Sample& sample) const {
  fmt::print("sample {} of {}: {} tokens from {}\n", sample.sample_idx, split_name_,
             sample.ids.size(), counted(std::ssize(sample.parts), "document"));
  if (const std::string place = describe(sample.place); !place.empty()) fmt::print("  {}\n", place);
  if (sample.note) fmt::print("  {}\n", sample.note->text);
  if (const std::string piece = piece_of(sample); !piece.empty()) fmt::print("  {}\n", piece);
  if (has_several_datasets_ || samples_.dataset().is_blend() ||
      sample.in_dataset.sample_idx != sample.sample_idx) {
    fmt::print("  dataset {}, its sample {}\n",
               escape_for_terminal(sample.reader.prefix().string()), sample.in_dataset.sample_idx);
  }
  sample.for_each_part([&](const SamplePart& part, const Ids& ids, const std::string& losses) {
    fmt::print("  document {} (sequence {}), tokens {} to {} of {}{}\n", part.document_idx,
               part.sequence_idx, part.begin_token, part.begin_token + part.num_tokens,
               sample.reader.length(part.sequence_idx), unseen_text(sample, part));
    if (sample.sources)
      fmt::print("    from {}\n", escape_for_terminal(sample.sources->describe(part.document_idx)));
    if (!losses.empty()) fmt::print("    {}\n", losses);
    fmt::print("    ids: {}\n", fmt::join(ids, " "));
    if (vocabulary_)
      fmt::print("    text: {}\n", escape_for_terminal(decode_ids(ids, *vocabulary_)));
  });
}

void SamplePrinter::print_json(const Sample& sample) const {
  Json json = {{"sample", sample.sample_idx}, {"split", split_name_}};
  add_place(json, sample.place);
  if (sample.note) json.update(sample.note->json);
  json["dataset"] = sample.reader.prefix().string();
  json["dataset_sample"] = sample.in_dataset.sample_idx;
  if (!samples_.are_whole()) {
    json["begin_in_sample"] = sample.row.begin;
    json["num_repeated"] = sample.row.num_repeated;
  }
  Json& parts = json["parts"] = Json::array();
  for (const SamplePart& part : sample.parts) {
    parts.push_back({{"document", part.document_idx},
                     {"sequence", part.sequence_idx},
                     {"begin_token", part.begin_token},
                     {"num_tokens", part.num_tokens}});
    add_source(parts.back(), sample.sources, part.document_idx);
    if (samples_.is_unseen(sample.sample_idx, part)) parts.back()["unseen"] = true;
    if (sample.note) parts.back().update(sample.note->part_jsons[parts.size() - 1]);
  }
  json["ids"] = sample.ids;
  if (vocabulary_) json["text"] = decode_ids(sample.ids, *vocabulary_);
  print_line(json);
}

void SamplePrinter::print_html(const Sample& sample) const {
  fmt::print("<h2>sample {} of {}</h2>\n<p>{}{}dataset {}, its sample {}</p>\n", sample.sample_idx,
             escaped(split_name_), describe(sample.place), sample.place.iteration ? "; " : "",
             escaped(sample.reader.prefix().string()), sample.in_dataset.sample_idx);
  if (const std::string piece = piece_of(sample); !piece.empty()) fmt::print("<p>{}</p>\n", piece);
  if (sample.note) fmt::print("<p>{}</p>\n", escaped(sample.note->text));
  sample.for_each_part([&](const SamplePart& part, const Ids& ids, const std::string& losses) {
    fmt::print("<h3>document {} (sequence {}), tokens {} to {} of {}{}</h3>\n", part.document_idx,
               part.sequence_idx, part.begin_token, part.begin_token + part.num_tokens,
               sample.reader.length(part.sequence_idx), unseen_text(sample, part));
    if (sample.sources)
      fmt::print("<p>from {}</p>\n", escaped(sample.sources->describe(part.document_idx)));
    if (!losses.empty()) fmt::print("<p>{}</p>\n", escaped(losses));
    if (vocabulary_) fmt::print("<pre>{}</pre>\n", escaped_lines(decode_ids(ids, *vocabulary_)));
    fmt::print("<details><summary>{}</summary>{}</details>\n", counted(std::ssize(ids), "id"),
               fmt::join(ids, " "));
  });
}

}  // namespace weft
