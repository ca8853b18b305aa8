// RUN_DIR/metrics.jsonl holds one JSON object per step, for users' own scripts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/log/log_lines.h"

namespace weft {

inline constexpr const char* kMetricsName = "metrics.jsonl";

// The numbers of one step. The keys of the JSON object are these names, which stay as they are. A
// loss or norm that is not finite becomes null.
struct StepMetrics {
  int64_t iteration = 0, consumed_samples = 0, consumed_tokens = 0;
  double learning_rate = 0;  // the rate that the step used
  int64_t global_batch_size = 0;
  std::optional<int64_t> curriculum_seqlen = {};  // the length of sequences, where it may change
  double lm_loss = 0, grad_norm = 0;
  std::optional<double> params_norm = {};
  std::optional<double> loss_scale = {};  // of the next step; of fp16
  std::optional<bool> skipped = {};       // whether the update was left out, where it may be
  // Relative errors of fp8 products (StepResult); written as {"qkv": [by layer], "proj": ..., ...}
  std::vector<float> fp8_errors = {};
  // When the step was logged, in ISO 8601 and UTC; without it the four behind it are not written.
  std::string timestamp = {};
  // The rates of all devices, and of one; mfu is in percent, where the device's peak is known.
  double tokens_per_second = 0, tflops_per_device = 0;
  std::optional<double> mfu = {};
  int64_t memory_bytes = 0;  // planned on the device of the rank that logs
  double elapsed_ms = 0, forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
  std::optional<double> exchange_ms = {};  // of pipelines
};
std::string to_json_line(const StepMetrics& step);
// `name` is "validation" or "test". An evaluation at the end of training belongs to no iteration,
// so a resumed run drops it.
std::string to_json_line(int64_t iteration, const std::string& name, double loss, bool at_end);
// The numbers of a benchmark, and a text that the model has written behind a prompt.
std::string scores_json_line(int64_t iteration, const std::string& task, int64_t num_examples,
                             const NamedNumbers& numbers);
std::string sample_json_line(int64_t iteration, const std::string& prompt, const std::string& text);
// An iteration that has consumed its samples and trained nothing.
std::string untrained_step_line(int64_t iteration, int64_t consumed_samples,
                                int64_t consumed_tokens, int64_t global_batch_size);
// Tells that log lines before this one's iteration could not be printed, and why.
std::string lost_output_line(int64_t iteration, const std::string& reason);

// Appends lines with one write each, so that a killed run leaves at most one torn line, the last.
class MetricsFile {
 public:
  // Opens or creates the file. First it drops a torn line and, if `resumed_iteration` is given, the
  // lines of the iterations after it, and of the end of training, that the run has written before.
  MetricsFile(const std::filesystem::path& path, std::optional<int64_t> resumed_iteration);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();
  void add(const std::string& line);  // throws std::system_error
  int64_t num_dropped_lines() const { return num_dropped_lines_; }

 private:
  std::filesystem::path path_;
  int64_t num_dropped_lines_ = 0;
  int fd_ = -1;
};

}  // namespace weft
