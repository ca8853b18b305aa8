// Writes log lines, metrics.jsonl, losses of samples and TensorBoard events from one record per
// step.
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "indexed_dataset/run_record/sample_losses.h"
#include "trainer/config/config.h"
#include "trainer/config/model_shape.h"
#include "trainer/log/log_lines.h"
#include "trainer/log/metrics_jsonl.h"
#include "trainer/log/run_manifest.h"
#include "trainer/log/tensorboard.h"
#include "trainer/step/trainer.h"

namespace weft {

// The numbers of a step that the loop knows when it enqueues the step.
struct StepRecord {
  int64_t iteration = 0;         // counted from 1
  int64_t consumed_samples = 0;  // after the step
  int64_t consumed_tokens = 0;   // likewise
  int64_t global_batch_size = 0;
  int64_t seq_length = 0;
  double learning_rate = 0;       // the rate of this step
  double next_learning_rate = 0;  // the rate of the next step, which Megatron prints
  std::optional<double> next_decoupled_rate = {};  // of the word embedding and the head
  double batch_wait_ms = 0;                        // time that the step waited for the data loader
};

// Returns the dense bf16 peak of a device in TFLOP/s by its name, if it is known.
std::optional<double> peak_tflops(const std::string& device);

class RunLog {
 public:
  struct Options {
    const Config& config;  // must outlive the log
    ModelShape shape;
    std::string device;  // Backend::description()
    int64_t num_iterations = 0;
    int64_t num_recomputed_layers = 0;            // in backward, of the whole model
    int64_t memory_bytes = 0;                     // planned on this rank's device
    int64_t last_token = 0;                       // consumed tokens at the end of the run
    std::chrono::seconds progress_interval{600};  // between lines of progress
    std::string run_id;
    // What this run has logged after these is dropped: it takes those steps again. An evaluation
    // drops nothing.
    std::optional<LogEnd> log_end = {};
    // As in Megatron, the first rank prints text and the last one iterations, metrics and events.
    bool prints_text = true, logs_steps = true;
  };
  RunLog(const Options& options, std::FILE* out);

  // Prints text for people and flushes it, because logs are followed through pipes.
  void print(const std::string& text);

  // Call it before the first step, and before the first one after a Pause, whose elapsed time is
  // then its own alone.
  void training_starts();
  void on_step(const StepRecord& record, const StepResult& result);
  // An iteration that has consumed its samples and trained nothing; only its counts have meaning.
  void on_untrained_step(const StepRecord& record);
  struct Evaluation {
    std::string set;  // "validation" or "test", with " NAME" for one of several groups
    double loss = 0;
    int64_t iteration = 0, consumed_samples = 0;
    bool at_end = false;  // after the last step of training
  };
  void on_evaluation(const Evaluation& evaluation);
  struct TaskScores {
    std::string task;
    int64_t num_examples = 0;
    NamedNumbers numbers = {};
    int64_t iteration = 0, consumed_samples = 0;
  };
  void on_task(const TaskScores& scores);
  struct Sample {
    std::string prompt, text;
    int64_t iteration = 0;
    size_t number = 0;  // of the prompt, from 1 on
  };
  void on_sample(const Sample& sample);

  // While a Pause lives (evaluation, saving) the clock stands still, as in Megatron-LM core_r0.7.
  class Pause {
   public:
    explicit Pause(RunLog& log) : log_(log) {}
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    ~Pause() { log_.training_starts(); }

   private:
    RunLog& log_;
  };

 private:
  // Sums over the steps since the last iteration line.
  struct Interval {
    int64_t num_steps = 0, num_advanced = 0, num_skipped = 0, num_nan = 0;
    int64_t num_samples = 0, num_tokens = 0;  // computed ones
    double elapsed_ms = 0, flops = 0, recomputed_flops = 0, loss = 0, batch_wait_ms = 0,
           forward_ms = 0, backward_ms = 0, optimizer_ms = 0, exchange_ms = 0;
  };

  IterationLine iteration_line_of(const StepRecord& record, const StepResult& result,
                                  double elapsed_ms) const;
  std::vector<Timer> timers() const;
  void print_line(const std::string& text);
  void open_files(const Options& options);
  int64_t open_sample_losses(int64_t resumed_samples);
  void open_events(const Options& options);
  void add_events(int64_t step, const std::vector<Scalar>& scalars);
  template <typename Add>
  void try_events(const Add& add);
  void stop_events(const std::system_error& error);
  void count(const StepResult& result);
  void log_interval(const StepRecord& record, const StepResult& result);
  void log_fp8_errors(int64_t iteration, const std::vector<float>& errors);
  struct Speed {
    double tokens_per_s = 0, tflops = 0;  // of all devices, and of one
    std::optional<double> mfu = {};       // in percent
  };
  Speed speed_of(double num_tokens, double flops, double elapsed_ms) const;
  void write_events(const StepRecord& record, const StepResult& result, double elapsed_ms,
                    const Speed& speed);

  const Config& config_;
  const ModelShape shape_;
  const int64_t num_iterations_, num_recomputed_layers_, memory_bytes_;
  const std::optional<double> peak_tflops_;
  std::FILE* out_;
  const bool prints_text_, logs_steps_;
  std::unique_ptr<SampleLossWriter> sample_losses_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<EventFile> events_;
  Interval interval_;
  const int64_t last_token_;
  const std::chrono::seconds progress_interval_;
  std::chrono::steady_clock::time_point progress_at_ = std::chrono::steady_clock::now();
  std::string lost_output_;  // why out_ took no line, until metrics.jsonl tells it
  bool has_lost_output_ = false;
  bool has_logged_ = false;  // the first step of a process is logged, whatever --log-interval says
  bool after_pause_ = true;  // the step before the next one is no measure of its time
};

}  // namespace weft
