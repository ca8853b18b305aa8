#include "trainer/plan/measure_devices.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/ceilings/measure_device.h"
#include "trainer/log/log_lines.h"
#include "trainer/plan/train_setup.h"
#include "trainer/ranks/agreement.h"

namespace weft {

void measure_devices(const Config& config, HostGroup& ranks, std::FILE* out) {
  const std::string algorithms = algorithm_cache(config);
  if (algorithms.empty()) {
    throw UsageError(
        "--measure-device: there is no $HOME for ~/.cache/weft; give --gemm-algorithm-cache FILE, "
        "beside which the measurements are kept");
  }
  const DeviceChoice choice = choose_device(config.device);
  const bool is_gpu = choice.kind == DeviceKind::kCuda;
  const double seconds = config.measure_device_seconds.value_or(is_gpu ? 30 : 3);
  if (!(seconds > 0) || seconds > 3600) {
    throw UsageError(fmt::format(
        "--measure-device-seconds must be positive and at most 3600 (got {})", seconds));
  }
  if (!is_gpu && ranks.size() > 1) {
    throw UsageError(
        "--measure-device on a CPU: several ranks would measure each other; start one process");
  }
  const std::unique_ptr<Backend> backend = create_backend(choice.kind, local_rank(ranks));
  if (is_gpu) check_devices_differ(ranks, backend->device_id());
  const auto say = [&](const std::string& text) {
    if (ranks.rank() != 0) return;
    std::fputs(text.c_str(), out);
    std::fflush(out);
  };
  say(fmt::format("> device: {} ({})\n", backend->description(), choice.why));
  const std::filesystem::path file = ceilings_file(algorithms);
  // A file of another kind ends the run before the measurement rather than after it.
  if (ranks.rank() == 0) find_ceilings(file, "", "");
  DeviceCeilings mine = measure_device(*backend, algorithms, seconds, say);
  mine.measured_at = timestamp_now();
  std::vector<DeviceCeilings> all;
  for (const std::string& text : ranks.gather(to_json_text(mine)))
    all.push_back(ceilings_from_json_text(text));
  if (ranks.rank() != 0) return;
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const std::string fp8 =
        all[rank].fp8_tflops > 0 ? fmt::format("{:.4g} TF/s fp8, ", all[rank].fp8_tflops) : "";
    say(fmt::format("rank {}: {:.4g} TF/s bf16, {}copy {:.1f} GB/s, {} ({})\n", rank,
                    all[rank].bf16_tflops, fp8, all[rank].copy_gb_per_s, all[rank].device,
                    all[rank].device_id));
  }
  store_ceilings(file, all);  // everything is said by now, so nothing is lost if it throws
  say(fmt::format("written to {}\n", file.string()));
}

}  // namespace weft
