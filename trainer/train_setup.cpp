#include "trainer/train_setup.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "indexed_dataset/process/exit_code.h"

namespace weft {

namespace {

std::string default_algorithm_cache() {
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::filesystem::path(home) / ".cache/weft/gemm-algorithms";
}

}  // namespace

DeviceChoice choose_device(const Config& config) {
  if (config.device == "cpu") return {DeviceKind::kCpu, "--device cpu"};
  std::string why;
  const int num_devices = num_cuda_devices(&why);
  if (num_devices == 0) {
    if (config.device == "auto") return {DeviceKind::kCpu, "no GPU: " + why};
    throw std::runtime_error("--device cuda: no usable GPU: " + why +
                             "; --device cpu trains without one");
  }
  const int64_t head_size = config.head_size();
  if (head_size != 64 && head_size != 96 && head_size != 128) {
    throw std::invalid_argument(fmt::format(
        "head size {} (--hidden-size {} / --num-attention-heads {}, or --kv-channels): "
        "attention on the GPU takes 64, 96 or 128; change the heads, or give --device cpu",
        head_size, config.hidden_size, config.num_attention_heads));
  }
  return {DeviceKind::kCuda, config.device == "auto"
                                 ? fmt::format("{} GPU(s) found, the first is used", num_devices)
                                 : "--device cuda"};
}

std::unique_ptr<Backend> create_backend(DeviceKind kind, const Config& config) {
  if (kind == DeviceKind::kCpu) return create_cpu_backend();
  const std::string cache =
      config.gemm_algorithm_cache.empty() ? default_algorithm_cache() : config.gemm_algorithm_cache;
  return create_cuda_backend(0, cache);
}

DatasetTargetSizes target_sizes(const Config& config, const BatchSchedule& schedule) {
  DatasetTargetSizes sizes =
      dataset_target_sizes(std::nullopt, schedule.num_iterations(), config.global_batch(),
                           config.eval_interval, config.eval_iters);
  sizes.train_samples = config.skip_train ? 0 : schedule.num_train_samples();
  return sizes;
}

void check_memory(const MemoryPlan& plan, const Backend& backend) {
  const int64_t needed = plan.device_bytes(), available = backend.free_memory_bytes();
  if (needed <= available) return;
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  throw LimitExceeded(
      fmt::format("this run needs {:.2f} GiB on {}, which has {:.2f} GiB free; "
                  "lower --micro-batch-size or the model (--dry-run shows the plan)",
                  static_cast<double>(needed) / kGiB, backend.description(),
                  static_cast<double>(available) / kGiB));
}

}  // namespace weft
