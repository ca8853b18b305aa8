#include "preprocess/report/report_manifest.h"

#include <fmt/chrono.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/whole_files.h"
#include "preprocess/datasets/dataset_manifest.h"
#include "preprocess/report/report_labels.h"

namespace weft {
namespace {

// The time in UTC; empty where the file system does not tell.
std::string time_written(const std::filesystem::path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  if (error) return "";
  const auto since_epoch = std::chrono::file_clock::to_sys(time).time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch).count();
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::vector<std::pair<std::string, std::string>> main_options(
    const nlohmann::ordered_json& manifest) {
  std::vector<std::pair<std::string, std::string>> found;
  if (!manifest.is_object() || !manifest.contains("options")) return found;
  const auto& options = manifest["options"];
  for (const char* name : {"json-keys", "vocab-file", "append-eod", "special", "empty-docs",
                           "on-bad-line", "dtype", "origin-key", "shard"}) {
    if (!options.is_object() || !options.contains(name) || !options[name].is_string()) continue;
    const auto value = options[name].get<std::string>();
    if (!value.empty()) found.emplace_back(name, first_characters(value, 200));
  }
  return found;
}

}  // namespace

void read_manifest(DataReport& report) {
  const std::filesystem::path path = manifest_path(report.prefix);
  if (!std::filesystem::exists(path)) {
    report.notes.push_back(
        "There is no manifest: bad lines and bytes of the corpus are not known.");
    return;
  }
  try {
    const auto manifest = parse_json<nlohmann::ordered_json>(read_file(path));
    report.manifest_written = time_written(path);
    report.main_options = main_options(manifest);
    if (!manifest.contains("input_counts")) return;
    const auto& counts = manifest["input_counts"];
    report.num_jsonl_bytes = counts.at("jsonl_bytes").get<int64_t>();
    report.num_bad_lines = counts.at("bad_lines").get<int64_t>();
    for (const auto& [reason, count] : counts.at("bad_lines_by_reason").items())
      report.bad_lines_by_reason.emplace_back(reason, count.get<int64_t>());
  } catch (const std::exception& error) {
    report.notes.push_back("The counts in the manifest cannot be understood: " +
                           std::string(error.what()));
  }
}

}  // namespace weft
