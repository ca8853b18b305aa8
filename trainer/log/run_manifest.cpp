#include "trainer/log/run_manifest.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "indexed_dataset/blends/blend_json.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"
#include "trainer/config/option_text.h"
#include "trainer/log/log_lines.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kFileName = "run_manifest.json";

bool is_same_folder(const fs::path& a, const fs::path& b) {
  return !a.empty() && !b.empty() && fs::weakly_canonical(a) == fs::weakly_canonical(b);
}

std::string checksum_of(const Json& segment) {
  const std::string text = segment.dump();
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

struct Segments {
  Json earlier = Json::array();    // they ended where this run begins
  Json abandoned = Json::array();  // a run in the folder has left them for an older checkpoint
};

// Takes the parts of a run apart from those that it has abandoned. The checkpoint knows its own; without that
// the iterations decide, which do not tell the branches of a run apart.
Segments divide(Json&& all, const RunManifest& manifest) {
  Segments segments;
  const std::vector<std::string>& own = manifest.segments;
  size_t num_known = 0;
  for (Json& segment : all) {
    const auto begin = segment.at("resumed_iteration").get<int64_t>();
    const bool is_own =
        own.empty() || std::find(own.begin(), own.end(), checksum_of(segment)) != own.end();
    num_known += is_own ? 1 : 0;
    if (is_own && begin < manifest.resumed_iteration) {
      segments.earlier.push_back(std::move(segment));
    } else if (!is_own && begin < manifest.newest_checkpoint) {
      segments.abandoned.push_back(std::move(segment));
    }
  }
  // Where a part is lost, another one would stand for its iterations.
  if (num_known < own.size()) segments.earlier = Json::array();
  return segments;
}

// Returns the segments that are in the folder's manifest.
Segments segments_in(const fs::path& run_folder, const RunManifest& manifest) {
  const fs::path path = run_folder / kFileName;
  if (manifest.resumed_iteration == 0 || !fs::exists(path)) return {};
  const std::string text = read_file(path);
  try {
    Json last = parse_json<Json>(text);
    const std::string& load = manifest.config.load;
    if (!is_same_folder(load, run_folder) &&
        !is_same_folder(load, last.at("arguments").at("save").get<std::string>())) {
      return {};
    }
    Json all = Json::array(), abandoned = last.value("abandoned", Json::array());
    if (!manifest.segments.empty()) std::swap(all, abandoned);
    for (Json& segment : last.value("earlier", Json::array())) all.push_back(segment);
    last.erase("earlier");
    last.erase("abandoned");
    all.push_back(std::move(last));
    std::stable_sort(all.begin(), all.end(), [](const Json& a, const Json& b) {
      return a.at("resumed_iteration").get<int64_t>() < b.at("resumed_iteration").get<int64_t>();
    });
    Segments segments = divide(std::move(all), manifest);
    for (Json& segment : abandoned) segments.abandoned.push_back(std::move(segment));
    return segments;
  } catch (const std::exception&) {
    // A damaged manifest tells nothing. Whoever asks for those iterations is told so.
    return {};
  }
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

}  // namespace

std::vector<std::string> write_run_manifest(const std::filesystem::path& run_folder,
                                            const RunManifest& manifest) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  Json vocabulary = to_json(manifest.data)["vocabulary"];
  vocabulary["padded_size"] = manifest.padded_vocabulary_size;
  Json json = {
      {"program", "weft-train"},
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
      {"blends", to_json(manifest.data.blends)},
      {"data_parallel_size", manifest.config.data_parallel_size()},
      {"cyclic_order", json_of(manifest.cyclic)},
      {"dataset_samples",
       {{"train", manifest.train_samples},
        {"validation", manifest.valid_samples},
        {"test", manifest.test_samples}}},
      {"datasets", to_json(manifest.data)["datasets"]},
      {"vocabulary", vocabulary},
      {"unsee", manifest.unseen ? json_of(*manifest.unseen, manifest.config) : Json()},
      {"num_parameters", manifest.num_parameters},
      {"num_iterations", manifest.num_iterations},
      {"arguments", Json::parse(resolved_json(manifest.config))},
  };
  // As it will be read again, where a name that is no UTF-8 was replaced.
  json = Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  Segments segments = segments_in(run_folder, manifest);
  std::vector<std::string> checksums;
  for (const Json& segment : segments.earlier) checksums.push_back(checksum_of(segment));
  checksums.push_back(checksum_of(json));
  json["earlier"] = std::move(segments.earlier);
  if (!segments.abandoned.empty()) json["abandoned"] = std::move(segments.abandoned);
  fs::create_directories(run_folder);
  if (manifest.unseen) {
    write_file_atomically(run_folder / unsee_copy_name(manifest.unseen->sha256()),
                          manifest.unseen->text());
  }
  write_file_atomically(run_folder / kFileName, json.dump(2) + "\n");
  return checksums;
}

}  // namespace weft
