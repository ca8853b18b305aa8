#include "preprocess/inspect/report/report_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::string first_characters(std::string_view text, size_t num_characters) {
  const std::string first = first_columns(std::string(text), num_characters);
  return first.size() < text.size() ? first + "..." : first;
}

std::vector<std::string> findings_of(const DataReport& report) {
  const auto counted = [](int64_t count, const std::string& one, const std::string& many) {
    return grouped(count) + " " + (count == 1 ? one : many);
  };
  std::vector<std::string> findings;
  if (report.num_repetitive_documents > 0) {
    findings.push_back(counted(report.num_repetitive_documents, "document", "documents") +
                       " of almost nothing but repetition");
  }
  const double duplicates = share_of(report.duplicates.num_documents, report.num_documents);
  if (duplicates >= kSuspiciousShare)
    findings.push_back(percent(duplicates) + " of the documents are exact duplicates");
  if (report.num_bad_lines.value_or(0) > 0)
    findings.push_back(counted(*report.num_bad_lines, "bad line", "bad lines"));
  const double empty = share_of(report.num_empty_documents, report.num_documents);
  if (empty >= kSuspiciousShare) findings.push_back(percent(empty) + " of the documents are empty");
  const int64_t num_with_tokens = report.num_documents - report.num_empty_documents;
  const int64_t num_without_end = report.num_without_end.value_or(0);
  if (num_without_end > 0 && num_without_end < num_with_tokens)
    findings.push_back(counted(num_without_end, "document does", "documents do") +
                       " not end with the token that ends the others");
  if (report.num_with_end_inside.value_or(0) > 0)
    findings.push_back(counted(*report.num_with_end_inside, "document holds", "documents hold") +
                       " the token that ends documents inside");
  return findings;
}

std::string verdict_of(const DataReport& report) {
  const std::vector<std::string> findings = findings_of(report);
  if (findings.empty()) return "nothing suspicious";
  return fmt::format("{} of findings: {}",
                     findings.size() == 1 ? "1 kind" : fmt::format("{} kinds", findings.size()),
                     fmt::join(findings, "; "));
}

}  // namespace weft
