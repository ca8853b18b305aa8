#include "trainer/log/run_manifest.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "indexed_dataset/storage/file_io.h"
#include "trainer/config/option_text.h"
#include "trainer/log/log_lines.h"

namespace weft {

void write_run_manifest(const std::filesystem::path& run_folder, const RunManifest& manifest) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  nlohmann::ordered_json vocabulary = to_json(manifest.data)["vocabulary"];
  vocabulary["padded_size"] = manifest.padded_vocabulary_size;
  const nlohmann::ordered_json json = {
      {"program", "weft-train"},
      {"version", WEFT_VERSION},
      {"compiler", __VERSION__},
      {"started", timestamp_now()},
      {"host", host},
      {"device", manifest.device},
      {"resumed_iteration", manifest.resumed_iteration},
      {"dataset_prefix", std::filesystem::absolute(manifest.dataset_prefix).string()},
      {"dataset_samples",
       {{"train", manifest.train_samples},
        {"validation", manifest.valid_samples},
        {"test", manifest.test_samples}}},
      {"datasets", to_json(manifest.data)["datasets"]},
      {"vocabulary", vocabulary},
      {"num_parameters", manifest.num_parameters},
      {"num_iterations", manifest.num_iterations},
      {"arguments", nlohmann::ordered_json::parse(resolved_json(manifest.config))},
  };
  std::filesystem::create_directories(run_folder);
  write_file_atomically(
      run_folder / "run_manifest.json",
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace weft
