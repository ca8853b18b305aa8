#include "trainer/log/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iterator>
#include <numeric>

#include "indexed_dataset/base/terminal/progress_line.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

namespace {

// Megatron pads a name with dots to this column.
constexpr size_t kDotsColumn = 48;

std::string dots_after(std::string_view name) {
  return std::string(kDotsColumn - std::min(kDotsColumn, name.size()), '.');
}

// Returns the fields from lm loss to params norm, which all formats share.
std::string loss_fields(const IterationLine& line) {
  std::string text;
  if (line.loss && !(*line.loss <= 0)) text += fmt::format(" lm loss: {:.6E} |", *line.loss);
  text += fmt::format(" loss scale: {:.1f} |", line.loss_scale);
  if (line.grad_norm) text += fmt::format(" grad norm: {:.3f} |", *line.grad_norm);
  if (line.params_norm) text += fmt::format(" params norm: {:.3f} |", *line.params_norm);
  return text;
}

std::string counter_fields(const IterationLine& line) {
  return fmt::format(" number of skipped iterations: {:3d} | number of nan iterations: {:3d} |",
                     line.num_skipped, line.num_nan);
}

// Returns Megatron-DeepSpeed's two speed fields, then ours.
std::string speed_fields(const IterationLine& line) {
  std::string text =
      fmt::format(" samples per second: {:.3f} | TFLOPs: {:.2f} | tokens per second: {:.0f} |",
                  line.samples_per_s, line.hardware_tflops, line.tokens_per_s);
  if (line.mfu) text += fmt::format(" MFU: {:.1f} |", *line.mfu);
  return text;
}

}  // namespace

std::string iteration_line(LogFormat format, const IterationLine& line,
                           const std::string& timestamp) {
  std::string text;
  if (format == LogFormat::kMegatron2024) text += fmt::format(" [{}]", timestamp);
  text += fmt::format(" iteration {:8d}/{:8d} | consumed samples: {:12d} |", line.iteration,
                      line.num_iterations, line.consumed_samples);
  if (format == LogFormat::kMegatronDeepSpeed) {
    text += fmt::format(" consumed tokens: {:12d} | elapsed time per iteration (s): {:.4f} |",
                        line.consumed_tokens, line.elapsed_ms / 1e3);
  } else {
    text += fmt::format(" elapsed time per iteration (ms): {:.1f} |", line.elapsed_ms);
  }
  if (format == LogFormat::kMegatron2024) {
    if (line.log_throughput)
      text += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.1f} |", line.tflops);
    text += fmt::format(" learning rate: {:.6E} |", line.learning_rate);
  } else {
    text += fmt::format(" learning rate: {:.3E} |", line.learning_rate);
  }
  if (line.decoupled_learning_rate)
    text += fmt::format(" decoupled learning rate: {:.6E} |", *line.decoupled_learning_rate);
  text += fmt::format(" global batch size: {:5d} |", line.global_batch_size);
  text += loss_fields(line);
  if (line.curriculum_seqlen)
    text += fmt::format(" curriculum seqlen: {:5d} |", *line.curriculum_seqlen);
  text += counter_fields(line);
  if (format == LogFormat::kMegatronDeepSpeed) text += speed_fields(line);
  return text + "\n";
}

std::string timer_line(LogFormat format, std::span<const Timer> timers) {
  if (timers.empty()) return "";
  if (format == LogFormat::kMegatron2024) {
    std::string text = "(min, max) time across ranks (ms):\n";
    for (const auto& [name, ms] : timers) {
      // Megatron counts the space behind the name among the dots.
      const std::string dots = dots_after(std::string(name) + " ");
      text += fmt::format("    {} {}: ({:.2f}, {:.2f})\n", name, dots, ms, ms);
    }
    return text;
  }
  std::string text = "time (ms)";
  for (const auto& [name, ms] : timers) text += fmt::format(" | {}: {:.2f}", name, ms);
  return text + "\n";
}

std::string progress_line(int64_t consumed_tokens, int64_t last_token, double tokens_per_s,
                          std::optional<double> mfu) {
  std::string text =
      " > " + progress_fields(static_cast<double>(consumed_tokens), static_cast<double>(last_token),
                              tokens_per_s, "tokens");
  if (mfu) text += fmt::format(" | MFU {:.1f} %", *mfu);
  return text + "\n";
}

std::string validation_lines(const std::string& at, double loss) {
  const std::string text =
      fmt::format(" validation loss at {} | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", at,
                  loss, perplexity(loss));
  const std::string dashes(text.size() + 1, '-');
  return fmt::format("{}\n{}\n{}\n", dashes, text, dashes);
}

std::string scores_line(const std::string& task, int64_t iteration, const NamedNumbers& numbers) {
  std::string text = fmt::format(" task {} at iteration {} |", escape_message(task), iteration);
  for (const auto& [name, value] : numbers) text += fmt::format(" {}: {:.6g} |", name, value);
  return text + "\n";
}

std::string sample_line(int64_t iteration, const std::string& prompt, const std::string& text) {
  return fmt::format(" sample at iteration {} | {} -> {}\n", iteration, escape_for_terminal(prompt),
                     escape_for_terminal(text));
}

std::string arguments_banner(const std::vector<std::pair<std::string, std::string>>& arguments) {
  std::string text = "------------------------ arguments ------------------------\n";
  for (const auto& [name, value] : arguments)
    text += fmt::format("  {} {} {}\n", name, dots_after(name), value);
  return text + "-------------------- end of arguments ---------------------\n";
}

std::string datetime_line(const std::string& event, const std::string& timestamp) {
  return fmt::format("[{}] datetime: {} \n", event, timestamp);
}

std::string memory_line(int rank, int64_t iterations, int64_t allocated_bytes,
                        int64_t reserved_bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const double allocated = static_cast<double>(allocated_bytes) / kMiB;
  const double reserved = static_cast<double>(reserved_bytes) / kMiB;
  // Training allocates and frees nothing, so the maxima are the values.
  return fmt::format(
      "[Rank {}] (after {} iterations) memory (MB) | allocated: {:.1f} | max allocated: {:.1f} | reserved: {:.1f} | max reserved: {:.1f}\n",
      rank, iterations, allocated, allocated, reserved, reserved);
}

std::string saving_line(int64_t iteration, const std::string& folder) {
  return fmt::format("saving checkpoint at iteration {:7d} to {}\n", iteration, folder);
}

std::string scheduled_save_line(int64_t iteration, const std::string& folder) {
  return fmt::format("  scheduled an async checkpoint save at iteration {:7d} to {}\n", iteration,
                     folder);
}

std::string saved_line(int64_t iteration, const std::string& folder) {
  return fmt::format("  successfully saved checkpoint at iteration {:7d} to {}\n", iteration,
                     folder);
}

std::string fp8_errors_line(int64_t iteration, std::span<const float> errors) {
  constexpr size_t kNum = std::size(kFp8Products), kShown = 3;
  std::vector<size_t> order(errors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // An error that is not a number counts as the worst.
  const auto badness = [&](size_t i) { return std::isnan(errors[i]) ? INFINITY : errors[i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return badness(a) > badness(b); });
  std::string worst;
  for (size_t i = 0; i < std::min(kShown, order.size()); ++i) {
    worst += fmt::format("{}layer {} {} {:.2f}%", i > 0 ? ", " : "", order[i] / kNum,
                         kFp8Products[order[i] % kNum], 100 * errors[order[i]]);
  }
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  return fmt::format(" fp8 errors at iteration {}: {} | mean of {} products {:.2f}%\n", iteration,
                     worst, errors.size(), 100 * sum / static_cast<double>(errors.size()));
}

std::string dataset_sizes_lines(const DatasetTargetSizes& sizes, bool full_validation) {
  return fmt::format(
      " > datasets target sizes (minimum size):\n"
      "    train:      {}\n"
      "    validation: {}\n"
      "    test:       {}\n",
      sizes.train_samples, full_validation ? "None" : std::to_string(sizes.valid_samples),
      sizes.test_samples);
}

std::string timestamp_now() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string utc_timestamp_now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()) %
                  std::chrono::seconds(1);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03d}Z", text, ms.count());
}

double perplexity(double loss) { return std::exp(std::min(20.0, loss)); }

}  // namespace weft
