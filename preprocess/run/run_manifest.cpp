#include "preprocess/run/run_manifest.h"

#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const PipelineReport& report) {
  const PipelineTotals& totals = report.totals;
  Json bad = Json::object();
  for (int i = 0; i < kNumLineProblems; ++i) {
    const int64_t count = totals.bad_lines.by_problem[static_cast<size_t>(i)];
    if (count > 0) bad[describe(static_cast<LineProblem>(i))] = count;
  }
  Json counts = {{"documents", totals.num_documents},
                 {"empty_documents", totals.num_empty_documents},
                 {"bad_lines", totals.bad_lines.total()},
                 {"bad_lines_by_reason", bad},
                 {"replaced_surrogates", totals.num_replaced_surrogates},
                 {"bytes_without_entry", totals.num_dropped_bytes},
                 {"jsonl_bytes", totals.num_bytes}};
  if (!report.where.empty()) {
    Json reasons = Json::object();
    for (const auto& [reason, count] : totals.left_out.reasons(report.where))
      reasons[reason] = count;
    counts["left_out"] = totals.left_out.total();
    counts["left_out_by_reason"] = reasons;
  }
  return counts;
}

Json inputs_json(const PipelineReport& report) {
  Json array = Json::array();
  for (const InputReport& input : report.inputs) {
    array.push_back({{"path", input.path},
                     {"version", input.version},
                     {"format", input.format},
                     {"file_bytes", input.num_file_bytes},
                     {"jsonl_bytes", input.num_bytes},
                     {"lines", input.num_lines}});
  }
  return array;
}

// The options that decide on what is made. Together with the inputs they are the identity.
Json run_options(const std::string& identity) {
  const Json json = Json::parse(identity, nullptr, false);
  return json.is_object() ? json.value("options", Json::object()) : Json::object();
}

}  // namespace

void write_manifest(const std::filesystem::path& path, const PipelineReport& report,
                    size_t output_idx, const ManifestOrigin& origin) {
  const OutputReport& output = report.outputs[output_idx];
  Json options = Json::object();
  for (const auto& [name, value] : origin.options) options[name] = value;
  Json bad_lines = Json::array();
  for (const BadLine& bad_line : report.shown_bad_lines) bad_lines.push_back(bad_line.message());
  Json manifest = {
      {"program", "weft-data preprocess"},
      {"version", origin.program_version},
      {"unicode_version", origin.unicode_version},
      {"run", report.run_hash},
      {"run_options", run_options(report.run_identity)},
      {"options", options},
      {"vocabulary", to_json(origin.vocabulary)},
      {"inputs", inputs_json(report)},
      {"input_counts", counts_json(report)},
      {"first_bad_lines", bad_lines},
      {"dataset", {{"documents", output.num_documents}, {"tokens", output.num_tokens}}},
      {"seconds", origin.seconds},
  };
  if (!origin.nfc_version.empty()) manifest["nfc_version"] = origin.nfc_version;
  // Paths and messages may hold any bytes: those that are not UTF-8 are replaced, not refused.
  write_file_atomically(path, manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace weft
