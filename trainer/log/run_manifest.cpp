#include "trainer/log/run_manifest.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/blends/blend_json.h"
#include "indexed_dataset/process/parse_json.h"
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

// Returns the segments in the folder's manifest that ended where this run begins.
Json earlier_segments(const fs::path& run_folder, const RunManifest& manifest) {
  Json kept = Json::array();
  const fs::path path = run_folder / kFileName;
  if (manifest.resumed_iteration == 0 || !fs::exists(path)) return kept;
  const std::string text = read_file(path);
  try {
    Json last = parse_json<Json>(text);
    const std::string& load = manifest.config.load;
    if (!is_same_folder(load, run_folder) &&
        !is_same_folder(load, last.at("arguments").at("save").get<std::string>())) {
      return kept;
    }
    Json segments = last.value("earlier", Json::array());
    last.erase("earlier");
    segments.push_back(std::move(last));
    for (Json& segment : segments) {
      if (segment.at("resumed_iteration").get<int64_t>() < manifest.resumed_iteration)
        kept.push_back(std::move(segment));
    }
  } catch (const std::exception&) {
    // A damaged manifest tells nothing. Whoever asks for those iterations is told so.
    return Json::array();
  }
  return kept;
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

void write_run_manifest(const std::filesystem::path& run_folder, const RunManifest& manifest) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const Json data = to_json(manifest.data);
  Json vocabulary = data["vocabulary"];
  vocabulary["padded_size"] = manifest.padded_vocabulary_size;
  const Json json = {
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
      {"datasets", data["datasets"]},
      {"vocabulary", vocabulary},
      {"unsee", manifest.unseen ? json_of(*manifest.unseen, manifest.config) : Json()},
      {"num_parameters", manifest.num_parameters},
      {"num_iterations", manifest.num_iterations},
      {"arguments", Json::parse(resolved_json(manifest.config))},
      {"earlier", earlier_segments(run_folder, manifest)},
  };
  fs::create_directories(run_folder);
  if (manifest.unseen) {
    write_file_atomically(run_folder / unsee_copy_name(manifest.unseen->sha256()),
                          manifest.unseen->text());
  }
  write_file_atomically(run_folder / kFileName,
                        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace weft
