// The data report for people: one page, no script, nothing loaded from elsewhere. All text goes
// through `escaped`; the content security policy stands behind that.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/sources_layout.h"
#include "preprocess/inspect/report/data_report.h"
#include "preprocess/inspect/report/report_labels.h"
#include "preprocess/inspect/text/html_pieces.h"

namespace weft {
namespace {

// The colours follow the reader's system; paper is light.
constexpr std::string_view kStyle =
    ":root{color-scheme:light dark;--ink:#222;--page:#fff;--quiet:#666;--line:#ddd;--tile:#f4f5f7;"
    "--bar:#3b6ea5;--other:#e0a458;--bad:#a5432f}"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#ddd;--page:#16181c;--quiet:#999;"
    "--line:#333;--tile:#22252b;--bar:#6ea3d8;--other:#c98f45;--bad:#e08a76}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;"
    "color:var(--ink);background:var(--page)}"
    "h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2.2rem}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);"
    "vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "td.t,td.e,td.s{font:12px/1.7 ui-monospace,monospace}"
    "td.t{overflow-wrap:anywhere;min-width:11rem}td.s{white-space:nowrap}"
    // The text takes one line, as wide as the room that is left (max-width: 0 lets it shrink).
    "td.e{width:50%;min-width:14rem;max-width:0;overflow:hidden;text-overflow:ellipsis;"
    "white-space:nowrap}"
    "div.w{overflow-x:auto}table.o th{font-weight:normal;color:var(--quiet)}table.o "
    "td.t{min-width:0}p.verdict{font-size:1.05rem;font-weight:600;margin-bottom:.3rem}"
    "p.finding{margin:.3rem 0;padding-left:.7rem;border-left:3px solid var(--bad)}"
    "div.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem;"
    "margin:1.2rem 0}"
    "div.tile{background:var(--tile);border-radius:.4rem;padding:.5rem .8rem}"
    "span.v{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}"
    "p.note,span.r,span.k{color:var(--quiet)}td.b{width:40%;min-width:5rem;vertical-align:middle}"
    "svg{display:block;margin:2px 0}rect{fill:var(--bar)}svg.o rect{fill:var(--other)}"
    "span.c{color:var(--bar)}span.o{color:var(--other)}"
    "@media(max-width:40rem){th,td{padding:.25rem .3rem}td.d,th.d{display:none}body{font-size:14px}}";

std::string per_byte(int64_t num_tokens, const std::optional<int64_t>& num_bytes) {
  if (!num_bytes || *num_bytes == 0) return "not known";
  return fmt::format("{:.4f}", static_cast<double>(num_tokens) / static_cast<double>(*num_bytes));
}

std::string headline(const DataReport& report) {
  std::string html = "<p class=\"verdict\">Verdict: " + escaped(verdict_of(report)) + ".</p>\n";
  for (const std::string& finding : findings_of(report))
    html += "<p class=\"finding\">" + escaped(finding) + ".</p>\n";
  return html + "<p class=\"note\">" +
         fmt::format(
             "Findings are: documents with {:.0f} % repeated characters or {:.0f} % repeated "
             "tokens; {:.0f} % or more of exact duplicates or of empty documents; any bad line; "
             "documents without the end that others have, or with one inside.</p>\n",
             100 * kRepetitiveCharacters, 100 * kRepetitiveTokens, 100 * kSuspiciousShare);
}

// The six numbers that people look for first.
std::string tiles(const DataReport& report) {
  const auto or_unknown = [](const std::optional<int64_t>& value) {
    return value ? grouped(*value) : std::string("not known");
  };
  const auto& duplicates = report.duplicates;
  const Facts facts = {
      {"documents", grouped(report.num_documents)},
      {"tokens", grouped(report.num_tokens)},
      {"bytes of text", or_unknown(report.num_text_bytes)},
      {"exact duplicates, " + percent(share_of(duplicates.num_tokens, report.num_tokens)) +
           " of tokens",
       grouped(duplicates.num_documents)},
      {"bad lines", or_unknown(report.num_bad_lines)},
      {"empty documents", grouped(report.num_empty_documents)},
  };
  std::string html = "<div class=\"tiles\">\n";
  for (const auto& [name, value] : facts) {
    html += fmt::format(
        "<div class=\"tile\"><span class=\"v\">{}</span><span class=\"k\">{}</span></div>\n", value,
        name);
  }
  return html + "</div>\n";
}

std::string overview(const DataReport& report) {
  const auto documents = [&](const std::optional<int64_t>& count) {
    return count ? fmt::format("{} ({})", grouped(*count),
                               percent(share_of(*count, report.num_documents)))
                 : std::string("not known");
  };
  const int64_t num_with_tokens = report.num_documents - report.num_empty_documents;
  return "<h2>Numbers</h2>\n" +
         facts_table({
             {"tokens of the shortest document (not empty)", grouped(report.min_tokens)},
             {"tokens of the median document", grouped(report.median_tokens)},
             {"tokens of a document in the mean",
              grouped(std::llround(share_of(report.num_tokens, num_with_tokens)))},
             {"90 of 100 documents have at most, in tokens", grouped(report.p90_tokens)},
             {"99 of 100 documents have at most, in tokens", grouped(report.p99_tokens)},
             {"tokens of the longest document", grouped(report.max_tokens)},
             {"tokens per byte of text", per_byte(report.num_tokens, report.num_text_bytes)},
             {"bytes of the corpus (JSONL)",
              report.num_jsonl_bytes ? grouped(*report.num_jsonl_bytes) : "not known"},
             {"tokens per byte of the corpus", per_byte(report.num_tokens, report.num_jsonl_bytes)},
             {"documents with no end-of-document token at their end",
              documents(report.num_without_end)},
             {"with that token inside", documents(report.num_with_end_inside)},
         });
}

std::string how_it_was_made(const DataReport& report) {
  Facts facts = {{"dataset", report.prefix.string()}};
  if (!report.manifest_written.empty())
    facts.emplace_back("made (its manifest was written)", report.manifest_written);
  for (const auto& [name, value] : report.main_options) facts.emplace_back("--" + name, value);
  for (const auto& [name, sha256] : report.tokenizer_files)
    facts.emplace_back("tokenizer: " + name, "SHA-256 " + sha256);
  return "<h2>How it was made</h2>\n" + facts_table(facts, "o", "t");
}

std::string histogram(const DataReport& report) {
  const auto& counts = report.length_histogram;
  size_t first = 0, end = counts.size();  // they leave out the empty rows at both ends
  while (first < end && counts[first] == 0) ++first;
  while (end > first && counts[end - 1] == 0) --end;
  const auto share_of_documents = [&](size_t k) {
    return share_of(counts[k], report.num_documents);
  };
  const auto share_of_tokens = [&](size_t k) {
    return share_of(report.tokens_by_length[k], report.num_tokens);
  };
  double largest = 0;
  for (size_t k = first; k < end; ++k)
    largest = std::max({largest, share_of_documents(k), share_of_tokens(k)});
  HtmlTable table({{"n", "length"},
                   {"n", "documents"},
                   {"n d", "<span class=\"c\">of documents</span>"},
                   {"n", "<span class=\"o\">of tokens</span>"},
                   {"b", ""}});
  for (size_t k = first; k < end; ++k) {
    const int64_t from = k == 0 ? 0 : int64_t{1} << (k - 1);
    const int64_t to = k == 0 ? 0 : from - 1 + from;
    table.add_row({from == to ? grouped(from) : grouped(from) + " to " + grouped(to),
                   grouped(counts[k]), percent(share_of_documents(k)), percent(share_of_tokens(k)),
                   bar(share_of_documents(k) / largest) + bar(share_of_tokens(k) / largest, "o")});
  }
  return "<h2>Documents and tokens by length in tokens</h2>\n" + table.html();
}

// Shows the beginning of a text on one line, and more of it where the mouse rests.
std::string excerpt(const Beginning& beginning) {
  constexpr size_t kShownCharacters = 100;
  return "<span title=\"" + escaped(beginning.text) + "\">" +
         escaped_visible(visible_beginning(beginning, kShownCharacters)) + "</span>";
}

// Shows a source without the folders of its file, and all of it where the mouse rests.
std::string short_source(const std::string& source) {
  const size_t file_end = std::min(source.find(", byte "), source.find(", row "));
  const size_t slash = source.rfind('/', file_end);
  return "<span title=\"" + escaped(source) + "\">" +
         escaped(slash == std::string::npos ? source : source.substr(slash + 1)) + "</span>";
}

std::string heading(const std::string& title, const std::string& explanation) {
  return "<h2>" + title + "</h2>\n<p class=\"note\">" + explanation + "</p>\n";
}

// Documents that begin alike take one row, that of the first.
std::string document_table(const std::string& title, const std::string& explanation,
                           const std::vector<ReportedDocument>& documents, bool has_ratio,
                           bool has_sources) {
  std::vector<Column> columns = {{"n", "document"}, {"n", "tokens"}};
  if (has_ratio) columns.push_back({"n", "repeated"});
  if (has_sources) columns.push_back({"s", "source"});
  columns.push_back({"e", "begins with"});
  HtmlTable table(columns);
  for (size_t i = 0; i < documents.size(); ++i) {
    const ReportedDocument& document = documents[i];
    const auto begins_like_it = [&](const ReportedDocument& other) {
      return other.beginning.text == document.beginning.text;
    };
    const auto here = documents.begin() + static_cast<ptrdiff_t>(i);
    if (std::find_if(documents.begin(), here, begins_like_it) != here) continue;  // with the first
    std::vector<std::string> others;
    for (auto other = here + 1; other != documents.end(); ++other)
      if (begins_like_it(*other)) others.push_back(std::to_string(other->document_idx));
    std::string name = std::to_string(document.document_idx);
    if (!others.empty()) {
      name += fmt::format(" <span class=\"r\" title=\"{}\">and {} more</span>",
                          fmt::join(others, ", "), others.size());
    }
    std::vector<std::string> row = {name, grouped(document.num_tokens)};
    if (has_ratio) row.push_back(percent(document.ratio));
    if (has_sources) row.push_back(short_source(document.source));
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
    HtmlTable table({{"", "reason"}, {"n", "lines"}, {"b", ""}});
    for (const auto& [reason, count] : report.bad_lines_by_reason) {
      table.add_row({escaped(reason), grouped(count),
                     bar(share_of(count, report.num_bad_lines.value_or(count)))});
    }
    html += "<h2>Bad lines by reason</h2>\n" + table.html();
  }
  if (!report.left_out_by_reason.empty()) {
    HtmlTable table({{"", "comparison"}, {"n", "documents"}});
    for (const auto& [reason, count] : report.left_out_by_reason)
      table.add_row({escaped(reason), grouped(count)});
    html += "<h2>Documents left out by --where</h2>\n" + table.html();
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
      {{"t", "from"}, {"n d", "documents"}, {"n", "tokens"}, {"n", "share of tokens"}, {"b", ""}});
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
        bar(share_of(count.num_tokens, most_tokens)));
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
                                            "by tokens"),
                             kOriginBytes, grouped(counts.num_documents_without),
                             grouped(report.num_documents))) +
         table.html();
}

}  // namespace

std::string report_html(const DataReport& report) {
  const std::string name = escaped(report.prefix.filename().string());
  std::string html = html_head(name + ": data report", kStyle, kReportProgram);
  html += "<h1>" + name + "</h1>\n";
  html += headline(report) + tiles(report) + histogram(report) + overview(report) +
          bad_lines_and_inputs(report) + origins(report);
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
  html += duplicates(report) + how_it_was_made(report);
  for (const std::string& note : report.notes)
    html += "<p class=\"note\">" + escaped(note) + "</p>\n";
  return html + "</body>\n</html>\n";
}

}  // namespace weft
