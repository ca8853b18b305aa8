// The data report for people: one page, no script, nothing loaded from elsewhere. All text goes
// through `escaped`; the content security policy stands behind that.
#include <fmt/format.h>

#include <algorithm>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/sources_layout.h"
#include "preprocess/inspect/report/data_report.h"
#include "preprocess/inspect/report/report_labels.h"
#include "preprocess/inspect/text/html_pieces.h"

namespace weft {
namespace {

constexpr std::string_view kStyle =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;"
    "color:#222;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid #ddd;vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "td.t,td.e{font:12px/1.7 ui-monospace,monospace}"
    "td.t{overflow-wrap:anywhere;min-width:11rem}"
    // The text takes one line, as wide as the room that is left (max-width: 0 lets it shrink).
    "td.e{width:50%;min-width:14rem;max-width:0;overflow:hidden;text-overflow:ellipsis;"
    "white-space:nowrap}"
    "div.w{overflow-x:auto}div.w>svg{min-width:44rem}table.o th{font-weight:normal;color:#666}"
    "table.o{margin-bottom:1.5rem}table.o "
    "td.t{min-width:0}p.verdict{font-size:1.05rem;font-weight:600}"
    "p.note{color:#666}svg{height:auto}span.r{color:#666}td.b{width:9rem}"
    "rect{fill:#3b6ea5}svg text{font:11px system-ui,sans-serif;fill:#444}";

std::string per_byte(int64_t num_tokens, const std::optional<int64_t>& num_bytes) {
  if (!num_bytes || *num_bytes == 0) return "not known";
  return fmt::format("{:.4f}", static_cast<double>(num_tokens) / static_cast<double>(*num_bytes));
}

std::string overview(const DataReport& report) {
  const auto or_unknown = [](const std::optional<int64_t>& value) {
    return value ? grouped(*value) : std::string("not known");
  };
  return facts_table({
      {"documents", grouped(report.num_documents)},
      {"of them empty", grouped(report.num_empty_documents)},
      {"with no end-of-document token at their end", or_unknown(report.num_without_end)},
      {"with that token inside", or_unknown(report.num_with_end_inside)},
      {"tokens", grouped(report.num_tokens)},
      {"tokens of the shortest document (not empty)", grouped(report.min_tokens)},
      {"tokens of the median document", grouped(report.median_tokens)},
      {"tokens of the longest document", grouped(report.max_tokens)},
      {"bytes of text", or_unknown(report.num_text_bytes)},
      {"tokens per byte of text", per_byte(report.num_tokens, report.num_text_bytes)},
      {"bytes of the corpus (JSONL)", or_unknown(report.num_jsonl_bytes)},
      {"tokens per byte of the corpus", per_byte(report.num_tokens, report.num_jsonl_bytes)},
      {"bad lines", or_unknown(report.num_bad_lines)},
      {"superfluous documents (exact duplicates)", grouped(report.duplicates.num_documents)},
      {"tokens in these", grouped(report.duplicates.num_tokens)},
  });
}

std::string headline(const DataReport& report) {
  std::string html =
      "<p class=\"verdict\">Verdict: " + escaped(verdict_of(report)) + ".</p>\n<p class=\"note\">" +
      fmt::format(
          "Findings are: documents with {0:.0f} % repeated characters or {1:.0f} % repeated "
          "tokens; "
          "{2:.0f} % or more of exact duplicates or of empty documents; any bad line.</p>\n",
          100 * kRepetitiveCharacters, 100 * kRepetitiveTokens, 100 * kSuspiciousShare);
  Facts facts = {{"dataset", report.prefix.string()}};
  if (!report.manifest_written.empty())
    facts.emplace_back("made (its manifest was written)", report.manifest_written);
  for (const auto& [name, value] : report.main_options) facts.emplace_back("--" + name, value);
  return html + facts_table(facts, "o", "t");
}

std::string histogram(const DataReport& report) {
  std::vector<Bar> bars;
  const auto& counts = report.length_histogram;
  size_t first = 0, end = counts.size();  // they leave out the empty rows at both ends
  while (first < end && counts[first] == 0) ++first;
  while (end > first && counts[end - 1] == 0) --end;
  for (size_t k = first; k < end; ++k) {
    const int64_t from = k == 0 ? 0 : int64_t{1} << (k - 1);
    const int64_t to = k == 0 ? 0 : 2 * from - 1;
    bars.push_back({from == to ? grouped(from) : grouped(from) + " to " + grouped(to), counts[k]});
  }
  return "<h2>Documents by length in tokens</h2>\n" + bar_chart(bars);
}

// Shows the beginning of a text on one line, and more of it where the mouse rests.
std::string excerpt(const std::string& beginning) {
  constexpr size_t kShownCharacters = 100;
  return "<span title=\"" + escaped(beginning) + "\">" +
         escaped(first_characters(beginning, kShownCharacters)) + "</span>";
}

std::string heading(const std::string& title, const std::string& explanation) {
  return "<h2>" + title + "</h2>\n<p class=\"note\">" + explanation + "</p>\n";
}

std::string document_table(const std::string& title, const std::string& explanation,
                           const std::vector<ReportedDocument>& documents, bool has_ratio,
                           bool has_sources) {
  std::vector<Column> columns = {{"n", "document"}, {"n", "tokens"}};
  if (has_ratio) columns.push_back({"n", "repeated"});
  if (has_sources) columns.push_back({"t", "source"});
  columns.push_back({"e", "begins with"});
  HtmlTable table(columns);
  for (const ReportedDocument& document : documents) {
    std::vector<std::string> row = {std::to_string(document.document_idx),
                                    grouped(document.num_tokens)};
    if (has_ratio) row.push_back(percent(document.ratio));
    if (has_sources) row.push_back(escaped(document.source));
    row.push_back(excerpt(document.beginning));
    table.add_row(row);
  }
  return heading(title, explanation) + table.html();
}

std::string duplicates(const DataReport& report) {
  const Duplicates& found = report.duplicates;
  HtmlTable table(
      {{"n", "first document"}, {"n", "documents"}, {"n", "tokens of each"}, {"e", "begins with"}});
  for (size_t i = 0; i < found.largest.size(); ++i) {
    const DuplicateGroup& group = found.largest[i];
    table.add_row({std::to_string(group.first_document), grouped(group.num_documents),
                   grouped(group.num_tokens), excerpt(report.duplicate_beginnings[i])});
  }
  return heading("Exact duplicates",
                 fmt::format("{} groups of equal documents (token by token); without all but the "
                             "first of each, {} documents and {} tokens less. The groups that "
                             "waste most:",
                             grouped(found.num_groups), grouped(found.num_documents),
                             grouped(found.num_tokens))) +
         table.html();
}

// Says "One file." or "All 7 files, by tokens." or "The first 20 of 1,234 files, by tokens."
std::string how_many_shown(int64_t num_shown, int64_t num_all, const std::string& what,
                           const std::string& order) {
  if (num_all == 1) return "One " + what + ".";
  if (num_shown == num_all) return "All " + grouped(num_all) + " " + what + "s, " + order + ".";
  return "The first " + grouped(num_shown) + " of " + grouped(num_all) + " " + what + "s, " +
         order + ".";
}

std::string bad_lines_and_inputs(const DataReport& report) {
  std::string html;
  if (!report.bad_lines_by_reason.empty()) {
    std::vector<Bar> bars;
    for (const auto& [reason, count] : report.bad_lines_by_reason) bars.push_back({reason, count});
    html += "<h2>Bad lines by reason</h2>\n" + bar_chart(bars);
  }
  if (report.inputs.empty()) return html;
  HtmlTable table({{"t", "file"}, {"n", "documents"}, {"n", "tokens"}});
  for (const ReportedInput& input : report.inputs)
    table.add_row({escaped(input.name), grouped(input.num_documents), grouped(input.num_tokens)});
  return html +
         heading("Inputs", how_many_shown(std::ssize(report.inputs), report.num_inputs, "file",
                                          "by tokens")) +
         table.html();
}

// The last rows say what the table leaves out, so that it sums up to the whole.
std::string origins(const DataReport& report) {
  if (!report.origins) return "";
  const OriginCounts& counts = *report.origins;
  HtmlTable table(
      {{"t", "from"}, {"n", "documents"}, {"n", "tokens"}, {"n", "share of tokens"}, {"b", ""}});
  const auto add = [&](const std::string& name, int64_t num_documents, int64_t num_tokens,
                       const std::string& bar = "") {
    table.add_row({name, grouped(num_documents), grouped(num_tokens),
                   percent(share_of(num_tokens, report.num_tokens)), bar});
  };
  int64_t most_tokens = 1;
  OriginCount others{"", report.num_documents - counts.num_documents_without,
                     report.num_tokens - counts.num_tokens_without};
  for (const OriginCount& count : counts.largest) {
    most_tokens = std::max(most_tokens, count.num_tokens);
    others.num_documents -= count.num_documents;
    others.num_tokens -= count.num_tokens;
  }
  for (const OriginCount& count : counts.largest) {
    add(escaped(count.origin), count.num_documents, count.num_tokens,
        fmt::format("<svg viewBox=\"0 0 100 9\" width=\"140\" role=\"img\">"
                    "<rect width=\"{:.1f}\" height=\"9\"/></svg>",
                    100 * share_of(count.num_tokens, most_tokens)));
  }
  const int64_t num_others = counts.num_origins - std::ssize(counts.largest);
  if (!counts.largest.empty() && num_others > 0)
    add("<span class=\"r\">the other " + grouped(num_others) + "</span>", others.num_documents,
        others.num_tokens);
  if (!counts.largest.empty() && counts.num_documents_without > 0)
    add("<span class=\"r\">none named</span>", counts.num_documents_without,
        counts.num_tokens_without);
  return heading("Top domains and sources",
                 fmt::format("{} As the lines of the corpus name them (--origin-key; names over "
                             "{} bytes are cut). Documents that name none: {} of {}.",
                             how_many_shown(std::ssize(counts.largest), counts.num_origins, "name",
                                            "by documents"),
                             kOriginBytes, grouped(counts.num_documents_without),
                             grouped(report.num_documents))) +
         table.html();
}

}  // namespace

std::string report_html(const DataReport& report) {
  const std::string name = escaped(report.prefix.filename().string());
  std::string html = html_head(name + ": data report", kStyle, kReportProgram);
  html += "<h1>" + name + "</h1>\n";
  html += headline(report) + overview(report) + histogram(report) + bad_lines_and_inputs(report) +
          origins(report);
  html += document_table(
      "Most repeated characters",
      fmt::format("Share of characters that equal the one before them; documents with at least {} "
                  "characters.",
                  kMinRatedCharacters),
      report.most_repeated_characters, true, report.has_sources);
  html += document_table(
      "Most repeated tokens",
      fmt::format(
          "Share of tokens that end a run of four which the document has had before (within "
          "its last few thousand tokens); documents with at least {} tokens.",
          kMinRatedTokens),
      report.most_repeated_tokens, true, report.has_sources);
  html +=
      document_table("Longest documents", "By tokens.", report.longest, false, report.has_sources);
  html += duplicates(report);
  for (const std::string& note : report.notes)
    html += "<p class=\"note\">" + escaped(note) + "</p>\n";
  return html + "</body>\n</html>\n";
}

}  // namespace weft
