// The lines of the log, field for field as Megatron prints them: people grep them and scripts plot
// them. These are pure functions from numbers to text; every line ends with "\n".
// [Megatron-LM megatron/training/training.py (v2.x and core_r0.7);
// bigscience-workshop/Megatron-DeepSpeed megatron/training.py]
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "indexed_dataset/order/samples/gpt_dataset.h"
#include "trainer/config/config.h"

namespace weft {

struct IterationLine {
  int64_t iteration = 0, num_iterations = 0;
  int64_t consumed_samples = 0, consumed_tokens = 0;
  double elapsed_ms = 0;     // per iteration, mean over the log interval
  double learning_rate = 0;  // that of the next iteration
  std::optional<double> decoupled_learning_rate = {};
  int64_t global_batch_size = 0;
  // Mean over the steps of the log interval that were not skipped and whose loss is finite, if any.
  std::optional<double> loss = {};
  double loss_scale = 1;  // that of the next iteration
  std::optional<double> grad_norm = {}, params_norm = {};
  std::optional<int64_t> curriculum_seqlen = {};  // the length of sequences, where it may change
  int64_t num_skipped = 0, num_nan = 0;
  // Of all devices. Megatron divides the last batch by the mean time, which differs while the batch
  // grows.
  double samples_per_s = 0, tokens_per_s = 0;
  double tflops = 0;               // model TFLOP/s of one device; recomputation is not counted
  double hardware_tflops = 0;      // the same with recomputation, which Megatron-DeepSpeed counts
  std::optional<double> mfu = {};  // percent of the device's peak, where the peak is known
  bool log_throughput = false;
};

// The numbers of a benchmark by their names in metrics.jsonl.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

struct Timer {
  std::string_view name;
  double ms = 0;
};

// Only megatron-2024 prints `timestamp` ("2024-07-16 22:14:01").
std::string iteration_line(LogFormat format, const IterationLine& line,
                           const std::string& timestamp);
// Returns one "time (ms)" line, or the (min, max) block of megatron-2024; "" without timers.
std::string timer_line(LogFormat format, std::span<const Timer> timers);
// Returns how far a run is: " > 12.4 % | 3 h 10 min left | 57.0 k tokens/s | MFU 41.0 %".
std::string progress_line(int64_t consumed_tokens, int64_t last_token, double tokens_per_s,
                          std::optional<double> mfu);
// `at` is "iteration 1000" or "the end of training for val data".
std::string validation_lines(const std::string& at, double loss);
std::string arguments_banner(const std::vector<std::pair<std::string, std::string>>& arguments);
std::string datetime_line(const std::string& event, const std::string& timestamp);
std::string scores_line(const std::string& task, int64_t iteration, const NamedNumbers& numbers);
// Returns the line of a text that the model has written behind a prompt, both escaped.
std::string sample_line(int64_t iteration, const std::string& prompt, const std::string& text);
std::string memory_line(int rank, int64_t iterations, int64_t allocated_bytes,
                        int64_t reserved_bytes);
std::string saving_line(int64_t iteration, const std::string& folder);
std::string scheduled_save_line(int64_t iteration, const std::string& folder);  // --async-save
std::string saved_line(int64_t iteration, const std::string& folder);
// With `full_validation` the validation sets are not asked for a number of samples.
std::string dataset_sizes_lines(const DatasetTargetSizes& sizes, bool full_validation);

// Returns the line of an iteration whose fp8 products were compared with those of bf16: the largest
// errors and the mean. `errors` has qkv, proj, fc1 and fc2 of every layer (StepResult).
std::string fp8_errors_line(int64_t iteration, std::span<const float> errors);
inline constexpr const char* kFp8Products[] = {"qkv", "proj", "fc1", "fc2"};

// Returns the local time: "2024-07-16 22:14:01".
std::string timestamp_now();
// Returns the time as "2024-07-16T20:14:01.250Z".
std::string utc_timestamp_now();
// Returns exp(min(20, loss)), as Megatron prints it.
double perplexity(double loss);

}  // namespace weft
