// The data report for people: one page, no script, nothing loaded from elsewhere. All text goes
// through `escaped`; the content security policy stands behind that.
#include <fmt/format.h>

#include <algorithm>

#include "preprocess/report/data_report.h"
#include "preprocess/report/html_pieces.h"
#include "preprocess/report/report_labels.h"
#include "preprocess/terminal/terminal_text.h"
#include "preprocess/web/sha256.h"

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
    "p.note{color:#666}svg{height:auto}td.r{color:#666}td.b{width:9rem}"
    "rect{fill:#3b6ea5}svg text{font:11px system-ui,sans-serif;fill:#444}";

std::string row(const std::string& name, const std::string& value) {
  return fmt::format("<tr><th>{}</th><td class=\"n\">{}</td></tr>\n", name, value);
}

std::string per_byte(int64_t num_tokens, const std::optional<int64_t>& num_bytes) {
  if (!num_bytes || *num_bytes == 0) return "not known";
  return fmt::format("{:.4f}", static_cast<double>(num_tokens) / static_cast<double>(*num_bytes));
}

std::string overview(const DataReport& report) {
  const auto or_unknown = [](const std::optional<int64_t>& value) {
    return value ? grouped(*value) : std::string("not known");
  };
  return "<div class=\"w\"><table>\n" + row("documents", grouped(report.num_documents)) +
         row("of them empty", grouped(report.num_empty_documents)) +
         row("tokens", grouped(report.num_tokens)) +
         row("tokens of the shortest document (not empty)", grouped(report.min_tokens)) +
         row("tokens of the median document", grouped(report.median_tokens)) +
         row("tokens of the longest document", grouped(report.max_tokens)) +
         row("bytes of text", or_unknown(report.num_text_bytes)) +
         row("tokens per byte of text", per_byte(report.num_tokens, report.num_text_bytes)) +
         row("bytes of the corpus (JSONL)", or_unknown(report.num_jsonl_bytes)) +
         row("tokens per byte of the corpus", per_byte(report.num_tokens, report.num_jsonl_bytes)) +
         row("bad lines", or_unknown(report.num_bad_lines)) +
         row("superfluous documents (exact duplicates)", grouped(report.duplicates.num_documents)) +
         row("tokens in these", grouped(report.duplicates.num_tokens)) + "</table></div>\n";
}

std::string headline(const DataReport& report) {
  std::string html =
      "<p class=\"verdict\">Verdict: " + escaped(verdict_of(report)) + ".</p>\n<p class=\"note\">" +
      fmt::format(
          "Findings are: documents with {0:.0f} % repeated characters or {1:.0f} % repeated "
          "tokens; "
          "{2:.0f} % or more of exact duplicates or of empty documents; any bad line.</p>\n",
          100 * kRepetitiveCharacters, 100 * kRepetitiveTokens, 100 * kSuspiciousShare);
  html += "<div class=\"w\"><table class=\"o\">\n";
  const auto add = [&](const std::string& name, const std::string& value) {
    html += "<tr><th>" + escaped(name) + "</th><td class=\"t\">" + escaped(value) + "</td></tr>\n";
  };
  add("dataset", report.prefix.string());
  if (!report.manifest_written.empty())
    add("made (its manifest was written)", report.manifest_written);
  for (const auto& [name, value] : report.main_options) add("--" + name, value);
  return html + "</table></div>\n";
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
std::string excerpt_cell(const std::string& beginning) {
  constexpr size_t kShownCharacters = 100;
  return "<td class=\"e\" title=\"" + escaped(beginning) + "\">" +
         escaped(first_characters(beginning, kShownCharacters)) + "</td>";
}

std::string document_table(const std::string& title, const std::string& explanation,
                           const std::vector<ReportedDocument>& table, bool has_ratio,
                           bool has_sources) {
  std::string html = "<h2>" + title + "</h2>\n<p class=\"note\">" + explanation + "</p>\n";
  if (table.empty()) return html + "<p>None.</p>\n";
  html += "<div class=\"w\"><table>\n<tr><th class=\"n\">document</th><th class=\"n\">tokens</th>";
  if (has_ratio) html += "<th class=\"n\">repeated</th>";
  if (has_sources) html += "<th>source</th>";
  html += "<th>begins with</th></tr>\n";
  for (const ReportedDocument& document : table) {
    html += fmt::format("<tr><td class=\"n\">{}</td><td class=\"n\">{}</td>", document.document_idx,
                        grouped(document.num_tokens));
    if (has_ratio) html += "<td class=\"n\">" + percent(document.ratio) + "</td>";
    if (has_sources) html += "<td class=\"t\">" + escaped(document.source) + "</td>";
    html += excerpt_cell(document.beginning) + "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string duplicates(const DataReport& report) {
  const Duplicates& found = report.duplicates;
  std::string html = fmt::format(
      "<h2>Exact duplicates</h2>\n<p class=\"note\">{} groups of equal documents "
      "(token by token); without all but the first of each, {} documents and {} tokens "
      "less. The groups that waste most:</p>\n",
      grouped(found.num_groups), grouped(found.num_documents), grouped(found.num_tokens));
  if (found.largest.empty()) return html + "<p>None.</p>\n";
  html +=
      "<div class=\"w\"><table>\n<tr><th class=\"n\">first document</th><th "
      "class=\"n\">documents</th>"
      "<th class=\"n\">tokens of each</th><th>begins with</th></tr>\n";
  for (size_t i = 0; i < found.largest.size(); ++i) {
    const DuplicateGroup& group = found.largest[i];
    html += fmt::format(
        "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "{}</tr>\n",
        group.first_document, grouped(group.num_documents), grouped(group.num_tokens),
        excerpt_cell(report.duplicate_beginnings[i]));
  }
  return html + "</table></div>\n";
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
  html += fmt::format(
      "<h2>Inputs</h2>\n<p class=\"note\">{}</p>\n<div class=\"w\"><table>\n<tr><th>file</th>"
      "<th class=\"n\">documents</th><th class=\"n\">tokens</th></tr>\n",
      how_many_shown(std::ssize(report.inputs), report.num_inputs, "file", "by tokens"));
  for (const ReportedInput& input : report.inputs) {
    html += fmt::format(
        "<tr><td class=\"t\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        escaped(input.name), grouped(input.num_documents), grouped(input.num_tokens));
  }
  return html + "</table></div>\n";
}

std::string origin_row(const std::string& name_cell, int64_t num_documents, int64_t num_tokens,
                       double share, const std::string& bar = "") {
  return fmt::format(
      "<tr>{}<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
      "<td class=\"b\">{}</td></tr>\n",
      name_cell, grouped(num_documents), grouped(num_tokens), percent(share), bar);
}

// The last rows say what the table leaves out, so that it sums up to the whole.
std::string origins(const DataReport& report) {
  if (!report.origins) return "";
  const OriginCounts& counts = *report.origins;
  std::string html = fmt::format(
      "<h2>Top domains and sources</h2>\n<p class=\"note\">{} As the lines of the corpus "
      "name them (--origin-key; names over {} bytes are cut). Documents that name none: {} of "
      "{}.</p>\n",
      how_many_shown(std::ssize(counts.largest), counts.num_origins, "name", "by documents"),
      kOriginBytes, grouped(counts.num_documents_without), grouped(report.num_documents));
  if (counts.largest.empty()) return html + "<p>None.</p>\n";
  html +=
      "<div class=\"w\"><table>\n<tr><th>from</th><th class=\"n\">documents</th><th "
      "class=\"n\">tokens</th>"
      "<th class=\"n\">share of tokens</th><th></th></tr>\n";
  double largest_share = 1e-9;
  OriginCount others{"", report.num_documents - counts.num_documents_without,
                     report.num_tokens - counts.num_tokens_without};
  for (const OriginCount& count : counts.largest) {
    largest_share = std::max(largest_share, share_of(count.num_tokens, report.num_tokens));
    others.num_documents -= count.num_documents;
    others.num_tokens -= count.num_tokens;
  }
  for (const OriginCount& count : counts.largest) {
    const double share = share_of(count.num_tokens, report.num_tokens);
    html += origin_row("<td class=\"t\">" + escaped(count.origin) + "</td>", count.num_documents,
                       count.num_tokens, share,
                       fmt::format("<svg viewBox=\"0 0 100 9\" width=\"140\" role=\"img\">"
                                   "<rect width=\"{:.1f}\" height=\"9\"/></svg>",
                                   100 * share / largest_share));
  }
  const auto add_rest = [&](const std::string& name, int64_t num_documents, int64_t num_tokens) {
    html += origin_row("<td class=\"r\">" + name + "</td>", num_documents, num_tokens,
                       share_of(num_tokens, report.num_tokens));
  };
  const int64_t num_others = counts.num_origins - std::ssize(counts.largest);
  if (num_others > 0)
    add_rest("the other " + grouped(num_others), others.num_documents, others.num_tokens);
  if (counts.num_documents_without > 0)
    add_rest("none named", counts.num_documents_without, counts.num_tokens_without);
  return html + "</table></div>\n";
}

}  // namespace

std::string report_html(const DataReport& report) {
  const std::string name = escaped(report.prefix.filename().string());
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'sha256-{}'; base-uri 'none'; form-action 'none'\">\n"
      "<title>{}: data report</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>{}</h1>\n",
      sha256_base64(kStyle), name, kStyle, name);
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
