#include "trainer/log/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::optional<double> peak_tflops(const std::string& device) {
  for (const auto& [name, tflops] :
       {std::pair{"H200", 989.4}, {"H100", 989.4}, {"A100", 312.0}, {"V100", 125.0}}) {
    if (device.find(name) != std::string::npos) return tflops;
  }
  return std::nullopt;
}

RunLog::RunLog(const Options& options, std::FILE* out)
    : config_(options.config),
      shape_(options.shape),
      num_iterations_(options.num_iterations),
      num_recomputed_layers_(options.num_recomputed_layers),
      memory_bytes_(options.memory_bytes),
      peak_tflops_(options.config.dtype() != DType::kFloat32 ? peak_tflops(options.device)
                                                             : std::nullopt),
      out_(out),
      prints_text_(options.prints_text),
      logs_steps_(options.logs_steps),
      last_token_(options.last_token),
      progress_interval_(options.progress_interval) {
  if (!logs_steps_) return;
  if (!config_.run_folder().empty()) open_files(options);
  if (!config_.tensorboard_dir.empty()) open_events(options);
}

void RunLog::open_files(const Options& options) {
  const std::filesystem::path folder = config_.run_folder();
  const std::optional<LogEnd>& end = options.log_end;
  std::filesystem::create_directories(folder);
  metrics_ = std::make_unique<MetricsFile>(folder / kMetricsName,
                                           end ? std::optional(end->iteration) : std::nullopt);
  const int64_t num_samples = end ? open_sample_losses(end->consumed_samples) : 0;
  if (metrics_->num_dropped_lines() + num_samples == 0) return;
  print_line(fmt::format(
      "> {}: what this run had logged after iteration {} is dropped, {} lines of {} and the losses of {} samples\n",
      folder.string(), end->iteration, metrics_->num_dropped_lines(), kMetricsName, num_samples));
}

// Returns the number of samples whose losses are dropped. A run that keeps no losses drops those
// that follow its begin, too: they are of another past.
int64_t RunLog::open_sample_losses(int64_t resumed_samples) {
  const auto path = std::filesystem::path(config_.run_folder()) / kSampleLossesName;
  if (config_.no_sample_losses && !std::filesystem::exists(path)) return 0;
  auto writer = std::make_unique<SampleLossWriter>(path, resumed_samples);
  const int64_t num_dropped = writer->num_dropped_samples();
  if (!config_.no_sample_losses) sample_losses_ = std::move(writer);
  return num_dropped;
}

void RunLog::open_events(const Options& options) {
  const std::string& folder = config_.tensorboard_dir;
  try {
    if (options.log_end) {
      const int64_t num_dropped = drop_events_after(
          folder, options.run_id, options.log_end->iteration, options.log_end->consumed_samples);
      if (num_dropped > 0) {
        print_line(fmt::format("> {}: {} events of this run after iteration {} are dropped\n",
                               folder, num_dropped, options.log_end->iteration));
      }
    }
    events_ = std::make_unique<EventFile>(folder, options.run_id);
  } catch (const std::system_error& error) {
    stop_events(error);
  }
}

void RunLog::add_events(int64_t step, const std::vector<Scalar>& scalars) {
  try_events([&] { events_->add(step, scalars); });
}

template <typename Add>
void RunLog::try_events(const Add& add) {
  if (!events_) return;
  try {
    add();
  } catch (const std::system_error& error) {
    stop_events(error);
  }
}

// The state of the run is worth more than its curves.
void RunLog::stop_events(const std::system_error& error) {
  events_.reset();
  print_line(fmt::format(
      "WARNING: --tensorboard-dir {}: {}; this run writes no more events, and trains on\n",
      config_.tensorboard_dir, error.what()));
}

void RunLog::print(const std::string& text) {
  if (prints_text_) print_line(text);
}

void RunLog::print_line(const std::string& text) {
  if (std::fputs(text.c_str(), out_) >= 0 && std::fflush(out_) == 0) return;
  if (has_lost_output_) return;
  has_lost_output_ = true;
  lost_output_ = std::strerror(errno);
  std::fprintf(
      stderr, "WARNING: the standard output takes no more log lines (%s); training goes on%s\n",
      lost_output_.c_str(),
      metrics_ ? (", and " + config_.run_folder() + "/" + kMetricsName + " has its steps").c_str()
               : "");
}

void RunLog::training_starts() { after_pause_ = true; }

void RunLog::on_step(const StepRecord& record, const StepResult& result) {
  if (!logs_steps_) return;
  // The host reads a result while the next step runs, so its own clock would tell the time between
  // two readings. Device time between the ends of two steps is what a step costs.
  const double elapsed_ms = after_pause_ ? result.device_ms : result.since_previous_ms;
  after_pause_ = false;
  interval_.num_steps += 1;
  interval_.elapsed_ms += elapsed_ms;
  const int64_t num_tokens = record.global_batch_size * record.seq_length;
  ModelShape shape = shape_;
  shape.seq_length = record.seq_length;
  interval_.num_samples += record.global_batch_size;
  interval_.num_tokens += num_tokens;
  const double flops = model_flops(shape, static_cast<double>(num_tokens));
  const Speed speed = speed_of(static_cast<double>(num_tokens), flops, elapsed_ms);
  interval_.flops += flops;
  interval_.recomputed_flops +=
      recomputed_flops(shape, static_cast<double>(num_tokens), num_recomputed_layers_);
  count(result);
  interval_.batch_wait_ms += record.batch_wait_ms;
  interval_.forward_ms += result.forward_ms;
  interval_.backward_ms += result.backward_ms;
  interval_.optimizer_ms += result.optimizer_ms;
  interval_.exchange_ms += result.exchange_ms;

  // First the losses of samples: whoever reads of an iteration in metrics.jsonl finds its samples.
  if (sample_losses_) {
    sample_losses_->add(record.iteration, record.consumed_samples - record.global_batch_size,
                        result.sample_losses);
  }
  if (metrics_) {
    StepMetrics metrics{.iteration = record.iteration,
                        .consumed_samples = record.consumed_samples,
                        .consumed_tokens = record.consumed_tokens,
                        .learning_rate = record.learning_rate,
                        .global_batch_size = record.global_batch_size,
                        .lm_loss = result.loss,
                        .grad_norm = result.grad_norm,
                        .timestamp = utc_timestamp_now(),
                        .tokens_per_second = speed.tokens_per_s,
                        .tflops_per_device = speed.tflops,
                        .mfu = speed.mfu,
                        .memory_bytes = memory_bytes_,
                        .elapsed_ms = elapsed_ms,
                        .forward_ms = result.forward_ms,
                        .backward_ms = result.backward_ms,
                        .optimizer_ms = result.optimizer_ms};
    if (config_.pipeline_model_parallel_size > 1) metrics.exchange_ms = result.exchange_ms;
    if (config_.has_curriculum()) metrics.curriculum_seqlen = record.seq_length;
    if (config_.log_params_norm) metrics.params_norm = result.params_norm;
    if (config_.fp16) metrics.loss_scale = result.outcome.loss_scale;
    if (config_.fp16 || config_.skip_bad_steps > 0) metrics.skipped = result.outcome.skipped;
    metrics.fp8_errors = result.fp8_errors;
    metrics_->add(to_json_line(metrics));
    if (!lost_output_.empty()) metrics_->add(lost_output_line(record.iteration, lost_output_));
    lost_output_.clear();
  }
  if (events_ && record.iteration % config_.tensorboard_log_interval == 0)
    write_events(record, result, elapsed_ms, speed);
  const bool ends_interval = record.iteration % config_.log_interval == 0;
  if (ends_interval || !has_logged_) log_interval(record, result);
  if (ends_interval) interval_ = {};
  if (!result.fp8_errors.empty()) log_fp8_errors(record.iteration, result.fp8_errors);
}

void RunLog::on_untrained_step(const StepRecord& record) {
  if (!logs_steps_) return;
  after_pause_ = true;
  print_line(fmt::format(
      " iteration {:8d}/{:8d} | consumed samples: {:12d} | global batch size: {:5d} | not trained "
      "(--iterations-to-skip, --skip-train-iteration-range)\n",
      record.iteration, num_iterations_, record.consumed_samples, record.global_batch_size));
  if (metrics_)
    metrics_->add(untrained_step_line(record.iteration, record.consumed_samples,
                                      record.consumed_tokens, record.global_batch_size));
}

void RunLog::log_fp8_errors(int64_t iteration, const std::vector<float>& errors) {
  print_line(fp8_errors_line(iteration, errors));
  constexpr size_t kNum = std::size(kFp8Products);
  std::vector<Scalar> scalars;
  for (size_t i = 0; i < errors.size(); ++i) {
    scalars.push_back(
        {std::string("fp8-error ") + kFp8Products[i % kNum] + "/layer " + std::to_string(i / kNum),
         errors[i]});
  }
  add_events(iteration, scalars);
}

// An overflow of scaled gradients is no NaN, as in Megatron: the loss tells.
void RunLog::count(const StepResult& result) {
  const bool has_loss = std::isfinite(result.loss), skipped = result.outcome.skipped;
  if (skipped) interval_.num_skipped += 1;
  if (!has_loss || (!skipped && !std::isfinite(result.grad_norm))) interval_.num_nan += 1;
  if (skipped || !has_loss) return;
  interval_.num_advanced += 1;
  interval_.loss += result.loss;
}

void RunLog::log_interval(const StepRecord& record, const StepResult& result) {
  const double elapsed_ms = interval_.elapsed_ms / static_cast<double>(interval_.num_steps);
  const IterationLine line = iteration_line_of(record, result, elapsed_ms);
  print_line(iteration_line(config_.log_format, line, timestamp_now()));
  print_line(timer_line(config_.log_format, timers()));
  const auto now = std::chrono::steady_clock::now();
  if (last_token_ > 0 && now - progress_at_ >= progress_interval_) {
    print_line(progress_line(record.consumed_tokens, last_token_, line.tokens_per_s, line.mfu));
    progress_at_ = now;
  }
  has_logged_ = true;
}

IterationLine RunLog::iteration_line_of(const StepRecord& record, const StepResult& result,
                                        double elapsed_ms) const {
  IterationLine line{.iteration = record.iteration,
                     .num_iterations = num_iterations_,
                     .consumed_samples = record.consumed_samples,
                     .consumed_tokens = record.consumed_tokens,
                     .elapsed_ms = elapsed_ms,
                     .learning_rate = record.next_learning_rate,
                     .global_batch_size = record.global_batch_size,
                     .loss_scale = result.outcome.loss_scale,
                     .num_skipped = interval_.num_skipped,
                     .num_nan = interval_.num_nan,
                     .log_throughput = config_.log_throughput};
  if (!result.outcome.skipped) line.grad_norm = result.grad_norm;
  if (interval_.num_advanced > 0)
    line.loss = interval_.loss / static_cast<double>(interval_.num_advanced);
  line.decoupled_learning_rate = record.next_decoupled_rate;
  if (config_.log_params_norm) line.params_norm = result.params_norm;
  if (config_.has_curriculum()) line.curriculum_seqlen = record.seq_length;
  const double seconds = elapsed_ms * static_cast<double>(interval_.num_steps) / 1e3;
  if (seconds > 0) {
    const double of_device = 1e-12 / seconds / static_cast<double>(config_.world_size);
    line.tflops = interval_.flops * of_device;
    line.hardware_tflops = (interval_.flops + interval_.recomputed_flops) * of_device;
    line.samples_per_s = static_cast<double>(interval_.num_samples) / seconds;
    line.tokens_per_s = static_cast<double>(interval_.num_tokens) / seconds;
  }
  if (peak_tflops_) line.mfu = 100.0 * line.tflops / *peak_tflops_;
  return line;
}

// Returns means over the interval. Megatron-LM v2.x always prints them, core_r0.7 from
// --timing-log-level 1 on.
std::vector<Timer> RunLog::timers() const {
  const auto steps = static_cast<double>(interval_.num_steps);
  const Timer forward{"forward-compute", interval_.forward_ms / steps};
  const Timer backward{"backward-compute", interval_.backward_ms / steps};
  const Timer optimizer{"optimizer", interval_.optimizer_ms / steps};
  const Timer batch{"batch-generator", interval_.batch_wait_ms / steps};
  if (config_.log_format != LogFormat::kMegatron2024 || config_.timing_log_level >= 2) {
    std::vector<Timer> timers{forward, backward, optimizer, batch};
    if (config_.pipeline_model_parallel_size > 1)
      timers.insert(timers.begin() + 2, {"pipeline-exchange", interval_.exchange_ms / steps});
    return timers;
  }
  if (config_.timing_log_level == 1)
    return {{"forward-backward", forward.ms + backward.ms}, optimizer};
  return {};
}

RunLog::Speed RunLog::speed_of(double num_tokens, double flops, double elapsed_ms) const {
  const double seconds = elapsed_ms / 1e3;
  if (!(seconds > 0)) return {};
  Speed speed{.tokens_per_s = num_tokens / seconds,
              .tflops = flops * 1e-12 / seconds / static_cast<double>(config_.world_size)};
  if (peak_tflops_) speed.mfu = 100.0 * speed.tflops / *peak_tflops_;
  return speed;
}

void RunLog::write_events(const StepRecord& record, const StepResult& result, double elapsed_ms,
                          const Speed& speed) {
  std::vector<Scalar> by_step, by_samples;
  const auto add = [&](const std::string& tag, double value) {
    by_step.push_back({tag, static_cast<float>(value)});
    by_samples.push_back({tag + " vs samples", static_cast<float>(value)});
  };
  if (!config_.no_log_learning_rate_to_tensorboard) add("learning-rate", record.next_learning_rate);
  if (record.next_decoupled_rate) add("decoupled-learning-rate", *record.next_decoupled_rate);
  add("batch-size", static_cast<double>(record.global_batch_size));
  if (config_.has_curriculum()) add("curriculum_seqlen", static_cast<double>(record.seq_length));
  add("lm loss", result.loss);
  if (!config_.no_log_loss_scale_to_tensorboard) add("loss-scale", result.outcome.loss_scale);
  if (!result.outcome.skipped) add("grad-norm", result.grad_norm);
  if (config_.log_params_norm) add("params-norm", result.params_norm);
  add("iteration-time", elapsed_ms / 1e3);
  by_step.push_back({"throughput", static_cast<float>(speed.tflops)});
  by_step.push_back({"tokens-per-second", static_cast<float>(speed.tokens_per_s)});
  if (speed.mfu) by_step.push_back({"mfu", static_cast<float>(*speed.mfu)});
  // All memory is planned, and allocated once, so Megatron's three numbers are one here.
  if (config_.log_memory_to_tensorboard) {
    for (const char* tag : {"mem-reserved-bytes", "mem-allocated-bytes", "mem-max-allocated-bytes"})
      by_step.push_back({tag, static_cast<float>(memory_bytes_)});
  }
  by_step.push_back({"world-size", static_cast<float>(config_.world_size)});
  by_step.push_back({"forward-compute-time", result.forward_ms / 1e3F});
  by_step.push_back({"backward-compute-time", result.backward_ms / 1e3F});
  by_step.push_back({"optimizer-time", result.optimizer_ms / 1e3F});
  add_events(record.iteration, by_step);
  add_events(record.consumed_samples, by_samples);
}

void RunLog::on_evaluation(const Evaluation& evaluation) {
  if (!logs_steps_) return;
  const auto& [set, loss, iteration, consumed_samples, at_end] = evaluation;
  std::string at = "iteration " + std::to_string(iteration);
  if (at_end)
    at = "the end of training for " + std::string(set.starts_with("validation") ? "val" : "test") +
         " data";
  // One of several groups: "validation NAME".
  if (const size_t space = set.find(' '); space != std::string::npos)
    at += " of " + set.substr(space + 1);
  print_line(validation_lines(at, loss));
  if (metrics_) metrics_->add(to_json_line(iteration, set, loss, at_end));
  const auto value = static_cast<float>(loss), ppl = static_cast<float>(perplexity(loss));
  const std::string tag = "lm loss " + set;
  add_events(iteration, {{tag, value}, {tag + " ppl", ppl}});
  add_events(consumed_samples, {{tag + " vs samples", value}, {tag + " ppl vs samples", ppl}});
}

void RunLog::on_task(const TaskScores& scores) {
  if (!logs_steps_) return;
  const auto& [task, num_examples, numbers, iteration, consumed_samples] = scores;
  print_line(scores_line(task, iteration, numbers));
  if (metrics_) metrics_->add(scores_json_line(iteration, task, num_examples, numbers));
  std::vector<Scalar> by_step, by_samples;
  for (const auto& [name, value] : numbers) {
    by_step.push_back({task + "/" + name, static_cast<float>(value)});
    by_samples.push_back({task + "/" + name + " vs samples", static_cast<float>(value)});
  }
  add_events(iteration, by_step);
  add_events(consumed_samples, by_samples);
}

// TensorBoard shows texts as Markdown, where an indented one is verbatim.
void RunLog::on_sample(const Sample& sample) {
  if (!logs_steps_) return;
  print_line(sample_line(sample.iteration, sample.prompt, sample.text));
  if (metrics_) metrics_->add(sample_json_line(sample.iteration, sample.prompt, sample.text));
  std::istringstream lines(sample.prompt + sample.text);
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += "    " + escape_for_terminal(line) + "\n";
  const std::string tag = fmt::format("sample/{}", sample.number);
  try_events([&] { events_->add_text(sample.iteration, tag, text); });
}

}  // namespace weft
