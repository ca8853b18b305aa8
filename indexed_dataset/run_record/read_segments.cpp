#include "indexed_dataset/run_record/read_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/run_record/manifest_order.h"
#include "indexed_dataset/run_record/segment_list.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

void check_format(const Json& manifest) {
  const int64_t format = find_json_integer(manifest, "format").value_or(0);
  if (format == kRunFormat) return;
  throw std::runtime_error(fmt::format(
      "weft-train {} wrote it, in format {}, and this version reads format {}; look at the run with the version that "
      "trained it, or give its arguments by hand (--data-path ...)",
      manifest.value("version", "of another version"), format, kRunFormat));
}

RunSegment segment_from(const Json& manifest) {
  check_format(manifest);
  RunSegment segment;
  segment.order = sample_order_from(manifest);
  segment.resumed = {.iteration = json_integer_at(manifest, "resumed_iteration"),
                     .samples = json_integer_at(manifest, "resumed_samples"),
                     .tokens = json_integer_at(manifest, "resumed_tokens")};
  segment.resumed_valid_samples = json_integer_at(manifest, "resumed_valid_samples");
  manifest.at("makes_up_evaluation").get_to(segment.makes_up_evaluation);
  segment.num_iterations = json_integer_at(manifest, "num_iterations");
  if (manifest.contains("untrained_iterations"))
    manifest["untrained_iterations"].get_to(segment.untrained_iterations);
  // Datasets are told in the order of the blends.
  for (const Json& dataset : manifest.at("datasets"))
    segment.datasets.push_back(dataset_identity_from_json(dataset));
  if (segment.datasets.size() != segment.order.blends.prefixes().size())
    throw std::runtime_error("it has not one identity for each dataset");
  if (const Json& unsee = manifest.at("unsee"); !unsee.is_null()) {
    segment.unsee = UnseeFile{.path = unsee.at("path").get<std::string>(),
                              .copy = {},
                              .sha256 = unsee.at("sha256").get<std::string>(),
                              .directory = manifest.at("working_directory").get<std::string>()};
  }
  return segment;
}

// Steps of metrics.jsonl up to the iteration with which the first segment begins are another run's.
void check_logged_steps(const RunTimeline& run, const std::filesystem::path& run_folder) {
  const std::vector<RunSegment>& segments = run.segments();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int64_t last = i + 1 < segments.size() ? segments[i + 1].resumed.iteration : INT64_MAX;
    const std::optional<LoggedStep> step = find_logged_step(run_folder, last);
    if (step && step->iteration > segments[i].resumed.iteration) run.check_step(*step);
  }
}

// Returns the last iteration that the run has trained; nothing without metrics.jsonl. A run that
// returned to a checkpoint of a way that it had left has not logged all iterations before.
std::optional<int64_t> find_last_trained(const std::filesystem::path& run_folder,
                                         const std::vector<RunSegment>& segments) {
  const std::optional<LoggedStep> last = find_logged_step(run_folder, INT64_MAX);
  if (!last) return std::nullopt;
  return std::max(last->iteration, segments.back().resumed.iteration);
}

}  // namespace

std::vector<RunSegment> segments_from(const std::vector<Json>& list,
                                      const std::filesystem::path& run_folder) {
  std::vector<RunSegment> segments;
  for (const Json& json : list) {
    RunSegment& segment = segments.emplace_back(segment_from(json));
    if (!segment.unsee) continue;
    const std::string name = unsee_copy_name(segment.unsee->sha256);
    segment.unsee->copy = run_folder / name;
    // The run may have gone on in another folder since.
    if (!std::filesystem::exists(segment.unsee->copy))
      segment.unsee->copy = std::filesystem::path(json.at("run_folder").get<std::string>()) / name;
  }
  const auto begins_later = [](const RunSegment& a, const RunSegment& b) {
    return a.resumed.iteration >= b.resumed.iteration || a.resumed.samples > b.resumed.samples;
  };
  if (std::adjacent_find(segments.begin(), segments.end(), begins_later) != segments.end())
    throw std::runtime_error("its segments are not in order");
  return segments;
}

RunTimeline read_run(const std::filesystem::path& run_folder) {
  if (!std::filesystem::exists(run_folder / "run_manifest.json")) {
    throw std::system_error(
        std::make_error_code(std::errc::no_such_file_or_directory),
        (run_folder / "run_manifest.json").string() +
            ": not the folder of a training run; give what weft-train had as --save or --run-dir");
  }
  const std::filesystem::path path = run_folder / "run_manifest.json";
  std::vector<RunSegment> segments;
  try {
    segments = segments_from(read_manifest_segments(path), run_folder);
  } catch (const ChecksumMismatch&) {
    throw;
  } catch (const Json::exception& error) {
    throw std::runtime_error(path.string() +
                             ": not the manifest of a training run: " + error.what());
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
  const auto last_trained = find_last_trained(run_folder, segments);
  RunTimeline run(std::move(segments), last_trained);
  check_logged_steps(run, run_folder);
  return run;
}

std::shared_ptr<const UnseenDocuments> read_unseen_documents(const RunSegment& segment) {
  if (!segment.unsee) return nullptr;
  const auto& [path, copy, sha256, directory] = *segment.unsee;
  const std::filesystem::path& file = std::filesystem::exists(copy) ? copy : path;
  auto unseen =
      std::make_shared<const UnseenDocuments>(file, segment.order.blends.prefixes(), directory);
  if (unseen->sha256() == sha256) return unseen;
  throw ChecksumMismatch(fmt::format(
      "{}: not the file of --unsee that the run has read, whose SHA-256 is {}; put that one back",
      file.string(), sha256));
}

}  // namespace weft
