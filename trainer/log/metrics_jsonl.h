// RUN_DIR/metrics.jsonl: one JSON object per step, for anyone's own scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace weft {

// What one step did. Keys of the JSON object are the names here, and stable; a loss or norm that is
// not finite is null.
struct StepMetrics {
  int64_t iteration = 0, consumed_samples = 0, consumed_tokens = 0;
  double learning_rate = 0;  // that the step was made with
  int64_t global_batch_size = 0;
  double lm_loss = 0, grad_norm = 0;
  std::optional<double> params_norm = {};
  double elapsed_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
};
std::string to_json_line(const StepMetrics& step);
// `name` is "validation" or "test". An evaluation `at_end` of training belongs to no iteration:
// resuming drops it.
std::string to_json_line(int64_t iteration, const std::string& name, double loss, bool at_end);

// Appends with one write per line, so that a killed run leaves at most one torn last line.
class MetricsFile {
 public:
  // Opens or creates; first drops what earlier runs wrote of iterations after `resumed_iteration`,
  // and any torn line.
  MetricsFile(const std::filesystem::path& path, int64_t resumed_iteration);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();
  void add(const std::string& line);  // throws std::system_error

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace weft
