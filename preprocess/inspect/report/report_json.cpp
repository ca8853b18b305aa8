// The data report for programs.
#include <nlohmann/json.hpp>

#include "preprocess/inspect/report/data_report.h"
#include "preprocess/inspect/report/report_labels.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json table_json(const std::vector<ReportedDocument>& table, bool has_ratio) {
  Json array = Json::array();
  for (const ReportedDocument& document : table) {
    Json row = {{"document", document.document_idx}, {"tokens", document.num_tokens}};
    if (has_ratio) row["ratio"] = document.ratio;
    if (!document.source.empty()) row["source"] = document.source;
    row["beginning"] = document.beginning.text;
    if (document.beginning.num_equal > 1)
      row["equal_characters_at_begin"] = document.beginning.num_equal;
    array.push_back(row);
  }
  return array;
}

Json histogram_json(const DataReport& report) {
  Json array = Json::array();
  for (size_t k = 0; k < report.length_histogram.size(); ++k) {
    if (report.length_histogram[k] == 0) continue;
    array.push_back(
        {{"from_tokens", k == 0 ? 0 : int64_t{1} << (k - 1)},
         {"to_tokens", k == 0 ? 0 : (int64_t{1} << (k - 1)) - 1 + (int64_t{1} << (k - 1))},
         {"documents", report.length_histogram[k]},
         {"tokens", report.tokens_by_length[k]}});
  }
  return array;
}

Json duplicates_json(const DataReport& report) {
  Json groups = Json::array();
  for (size_t i = 0; i < report.duplicates.largest.size(); ++i) {
    const DuplicateGroup& group = report.duplicates.largest[i];
    groups.push_back({{"first_document", group.first_document},
                      {"documents", group.num_documents},
                      {"tokens_each", group.num_tokens},
                      {"beginning", report.duplicate_beginnings[i].text}});
  }
  return {{"groups", report.duplicates.num_groups},
          {"superfluous_documents", report.duplicates.num_documents},
          {"superfluous_tokens", report.duplicates.num_tokens},
          {"largest_groups", groups}};
}

Json origins_json(const DataReport& report) {
  if (!report.origins) return {};
  Json largest = Json::array();
  for (const OriginCount& count : report.origins->largest) {
    largest.push_back({{"origin", count.origin},
                       {"documents", count.num_documents},
                       {"tokens", count.num_tokens},
                       {"share_of_tokens", share_of(count.num_tokens, report.num_tokens)}});
  }
  return {{"different", report.origins->num_origins},
          {"documents_without", report.origins->num_documents_without},
          {"tokens_without", report.origins->num_tokens_without},
          {"largest", largest}};
}

Json tokens_per_byte(int64_t num_tokens, const std::optional<int64_t>& num_bytes) {
  if (!num_bytes || *num_bytes == 0) return {};
  return static_cast<double>(num_tokens) / static_cast<double>(*num_bytes);
}

}  // namespace

std::string report_json(const DataReport& report) {
  Json reasons = Json::object();
  for (const auto& [reason, count] : report.bad_lines_by_reason) reasons[reason] = count;
  Json left_out = Json::object();
  for (const auto& [reason, count] : report.left_out_by_reason) left_out[reason] = count;
  Json options = Json::object();
  for (const auto& [name, value] : report.main_options) options[name] = value;
  Json inputs = Json::array();
  for (const ReportedInput& input : report.inputs) {
    inputs.push_back(
        {{"name", input.name}, {"documents", input.num_documents}, {"tokens", input.num_tokens}});
  }
  const Json json = {
      {"program", kReportProgram},
      {"dataset", report.prefix.string()},
      {"manifest_written",
       report.manifest_written.empty() ? Json() : Json(report.manifest_written)},
      {"options", options},
      {"findings", findings_of(report)},
      {"repetitive_documents", report.num_repetitive_documents},
      {"repetitive_tokens", report.num_repetitive_tokens},
      {"documents", report.num_documents},
      {"empty_documents", report.num_empty_documents},
      {"documents_without_end", or_null(report.num_without_end)},
      {"documents_with_end_inside", or_null(report.num_with_end_inside)},
      {"tokens", report.num_tokens},
      {"document_tokens",
       {{"min", report.min_tokens},
        {"median", report.median_tokens},
        {"p90", report.p90_tokens},
        {"p99", report.p99_tokens},
        {"max", report.max_tokens}}},
      {"length_histogram", histogram_json(report)},
      {"text_bytes", or_null(report.num_text_bytes)},
      {"tokens_per_text_byte", tokens_per_byte(report.num_tokens, report.num_text_bytes)},
      {"jsonl_bytes", or_null(report.num_jsonl_bytes)},
      {"tokens_per_jsonl_byte", tokens_per_byte(report.num_tokens, report.num_jsonl_bytes)},
      {"bad_lines", or_null(report.num_bad_lines)},
      {"bad_lines_by_reason", reasons},
      {"left_out_by_reason", left_out},
      {"longest_documents", table_json(report.longest, false)},
      {"most_repeated_characters", table_json(report.most_repeated_characters, true)},
      {"most_repeated_tokens", table_json(report.most_repeated_tokens, true)},
      {"duplicates", duplicates_json(report)},
      {"inputs", report.has_sources ? inputs : Json()},
      {"num_inputs", report.has_sources ? Json(report.num_inputs) : Json()},
      {"origins", origins_json(report)},
      {"notes", report.notes},
  };
  // Only ASCII is written, because people look at it in a terminal. Text may end within a
  // character, and names may hold any bytes.
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
