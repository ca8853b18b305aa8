#include "trainer/log/run_manifest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/order/blends/blend_json.h"
#include "indexed_dataset/run_record/manifest_checksum.h"
#include "indexed_dataset/run_record/sample_losses.h"
#include "indexed_dataset/run_record/segment_list.h"
#include "trainer/command_line/option_text.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/metrics_jsonl.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFileName = "run_manifest.json";

LogEnd begin_of(const Json& segment) {
  return {json_integer_at(segment, "resumed_iteration"),
          json_integer_at(segment, "resumed_samples")};
}

std::vector<Json> earlier_segments(const RunManifest& manifest) {
  if (manifest.segments_json.empty()) return {};
  std::vector<Json> segments = segments_of_list(parse_json<Json>(manifest.segments_json));
  try {
    std::erase_if(segments, [&](const Json& segment) {
      return begin_of(segment).iteration >= manifest.resumed_iteration;
    });
  } catch (const NotAnInteger& error) {
    throw std::runtime_error(std::string("the segments that the checkpoint lists of its run: ") +
                             error.what());
  }
  return segments;
}

// Returns `name`, or name.2, name.3 and so on where that is taken.
std::string free_name(const fs::path& folder, const std::string& name) {
  if (!fs::exists(folder / name)) return name;
  for (int count = 2;; ++count) {
    std::string numbered = fmt::format("{}.{}", name, count);
    if (!fs::exists(folder / numbered)) return numbered;
  }
}

// Returns the JSON as it will be read again, where bytes that are no UTF-8 are replaced.
Json with_utf8(const Json& json) {
  return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json json_of(const UnseenDocuments& unseen, const Config& config) {
  return {{"path", fs::absolute(config.unsee).string()},
          {"sha256", unseen.sha256()},
          {"num_documents", unseen.num_documents()}};
}

Json json_of(const std::optional<CyclicOptions>& cyclic) {
  if (!cyclic) return {};
  return {{"micro_batch_size", cyclic->micro_batch_size},
          {"data_parallel_size", cyclic->data_parallel_size}};
}

// Returns the id of the logs that `segment`, the last one of a manifest, has written into this very
// folder: a copy of the folder has the manifest, but not the files elsewhere that carry the id.
std::string run_id_of(const Json& segment, const fs::path& run_folder) {
  if (fs::weakly_canonical(segment.value("run_folder", "")) != fs::weakly_canonical(run_folder))
    return "";
  return segment.value("run_id", "");
}

}  // namespace

std::string new_run_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::string write_run_manifest(const std::filesystem::path& run_folder,
                               const RunManifest& manifest) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const Json data = to_json(manifest.data);
  Json vocabulary = data["vocabulary"];
  vocabulary["padded_size"] = manifest.padded_vocabulary_size;
  Json json = with_utf8({
      {"program", "weft-train"},
      {"format", kRunFormat},
      {"version", WEFT_VERSION},
      {"compiler", __VERSION__},
      {"started", timestamp_now()},
      {"host", host},
      {"device", manifest.device},
      {"resumed_iteration", manifest.resumed_iteration},
      {"resumed_samples", manifest.resumed_samples},
      {"resumed_tokens", manifest.resumed_tokens},
      {"resumed_valid_samples", manifest.resumed_valid_samples},
      {"makes_up_evaluation", manifest.makes_up_evaluation},
      {"dataset_prefix", manifest.dataset_prefix.empty()
                             ? Json()
                             : Json(fs::absolute(manifest.dataset_prefix).string())},
      {"working_directory", fs::current_path().string()},
      {"run_folder", fs::absolute(run_folder).string()},
      {"run_id", manifest.run_id},
      {"blends", to_json(manifest.data.blends)},
      {"data_parallel_size", manifest.config.data_parallel_size()},
      {"cyclic_order", json_of(manifest.cyclic)},
      {"dataset_samples",
       {{"train", manifest.train_samples},
        {"validation", manifest.valid_samples},
        {"test", manifest.test_samples}}},
      {"datasets", data["datasets"]},
      {"vocabulary", vocabulary},
      {"unsee", manifest.unseen ? json_of(*manifest.unseen, manifest.config) : Json()},
      {"num_parameters", manifest.num_parameters},
      {"num_iterations", manifest.num_iterations},
      {"arguments", Json::parse(resolved_json(manifest.config))},
  });
  for (const StepRange& range : manifest.config.untrained_steps())
    json["untrained_iterations"].push_back({range.first, range.last});
  std::vector<Json> segments = earlier_segments(manifest);
  Json earlier = list_segments(segments);
  segments.push_back(json);
  json["earlier"] = std::move(earlier);
  add_checksum(json);
  fs::create_directories(run_folder);
  if (manifest.unseen) {
    write_file_atomically(run_folder / unsee_copy_name(manifest.unseen->sha256()),
                          manifest.unseen->text());
  }
  write_file_atomically(run_folder / kFileName, json.dump(2) + "\n");
  return list_segments(segments).dump();
}

std::optional<SharedLogs> find_shared_logs(const std::filesystem::path& run_folder,
                                           const std::string& segments_json,
                                           const LogEnd& resumed) {
  const fs::path path = run_folder / kFileName;
  if (!fs::exists(path)) return std::nullopt;
  SharedLogs shared{.end = resumed};
  try {
    const std::vector<Json> logged = read_manifest_segments(path);
    shared.run_id = run_id_of(logged.back(), run_folder);
    if (segments_json.empty()) {
      // A run whose past is not known has begun its logs here before.
      if (begin_of(logged.front()) == resumed) return shared;
      return std::nullopt;
    }
    const std::vector<Json> own = segments_of_list(parse_json<Json>(segments_json));
    const auto [own_end, logged_end] = std::ranges::mismatch(own, logged);
    if (own_end == own.begin()) return std::nullopt;  // the logs are another run's
    const auto ends_before = [&](const Json& segment) {
      const LogEnd begin = begin_of(segment);
      if (begin.iteration < shared.end.iteration) shared.end = begin;
    };
    if (own_end != own.end()) ends_before(*own_end);
    if (logged_end != logged.end()) ends_before(*logged_end);
  } catch (const std::system_error&) {
    throw;  // it may be sound, and cannot be read
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged manifest tells nothing
  }
  return shared;
}

bool is_of_untrained_evaluation(const std::filesystem::path& run_folder) {
  if (!fs::exists(run_folder / kFileName)) return false;
  try {
    const std::vector<Json> segments = read_manifest_segments(run_folder / kFileName);
    return segments.size() == 1 && begin_of(segments[0]) == LogEnd{} &&
           segments[0].at("arguments").at("skip_train") == true;
  } catch (const std::exception&) {
    return false;  // nothing tells that it is one
  }
}

int64_t first_iteration_of_logs(const std::filesystem::path& run_folder) {
  const std::string own = fs::absolute(run_folder).string();
  try {
    for (const Json& segment : read_manifest_segments(run_folder / kFileName)) {
      if (segment.at("run_folder") == own) return begin_of(segment).iteration;
    }
  } catch (const Json::exception& error) {
    throw std::runtime_error((run_folder / kFileName).string() + ": " + error.what());
  } catch (const NotAnInteger& error) {
    throw std::runtime_error((run_folder / kFileName).string() + ": " + error.what());
  }
  return INT64_MAX;  // the folder was moved
}

std::vector<std::string> logs_in(const std::filesystem::path& run_folder) {
  std::vector<std::string> names;
  for (const char* name : {kMetricsName, kSampleLossesName, kFileName}) {
    if (fs::exists(run_folder / name)) names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> set_logs_aside(const std::filesystem::path& run_folder,
                                        int64_t resumed_iteration) {
  std::vector<std::string> names;
  for (const std::string& name : logs_in(run_folder)) {
    names.push_back(free_name(run_folder, fmt::format("{}.before_{:07}", name, resumed_iteration)));
    fs::rename(run_folder / name, run_folder / names.back());
  }
  return names;
}

}  // namespace weft
