#include "preprocess/inspect/foreign_runs/log_line_check.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "preprocess/inspect/lookup/taken_samples.h"

namespace weft {
namespace {

[[noreturn]] void throw_contradiction(const LogLine& line, const std::string& verb, int64_t of_line,
                                      int64_t of_run, const std::string& unit,
                                      const std::string& options) {
  throw std::runtime_error(fmt::format(
      "--log-line: iteration {} {} {} {} by the line, and {} by the run's arguments: they are not "
      "those of this log; correct {}, or, where a folder tells the arguments, name the folder of this run",
      line.iteration, verb, of_line, unit, of_run, options));
}

// Returns the tokens that the run had consumed after these samples.
int64_t tokens_after(const Stretch& stretch) {
  const RunSegment& segment = *stretch.segment;
  const auto& [iteration, samples, tokens] = segment.resumed;
  if (const auto rows = curriculum_rows_of(segment)) return rows->tokens_before(stretch.last);
  return tokens + (stretch.last - samples) * segment.order.seq_length;
}

// A run without a batch size is told by its --train-samples alone. Where all batches are as large
// as the line's, its number of iterations follows from these.
void check_iterations_by_samples(const LogLine& line, const Stretch& stretch) {
  const int64_t num_samples = stretch.segment->order.train_samples.value_or(0);
  if (!line.global_batch_size || *line.global_batch_size == 0) return;
  const int64_t num_iterations =
      line.iteration + (num_samples - stretch.last) / *line.global_batch_size;
  if (*line.num_iterations == num_iterations) return;
  throw std::runtime_error(fmt::format(
      "--log-line: the run has {} iterations by the line, and {} by --train-samples {} and the line's batch of {} "
      "samples: correct --train-samples, or, where the batch size changes, give --global-batch-size and "
      "--rampup-batch-size",
      *line.num_iterations, num_iterations, num_samples, *line.global_batch_size));
}

}  // namespace

void check_log_line(const LogLine& line, const Stretch& stretch) {
  const SampleOrder& order = stretch.segment->order;
  if (line.consumed_samples && *line.consumed_samples != stretch.last) {
    throw_contradiction(line, "ended with", *line.consumed_samples, stretch.last,
                        "consumed samples", "--global-batch-size and --rampup-batch-size");
  }
  const int64_t batch = stretch.last - stretch.first;
  if (line.global_batch_size && *line.global_batch_size != batch) {
    throw_contradiction(line, "took", *line.global_batch_size, batch, "samples",
                        "--global-batch-size and --rampup-batch-size");
  }
  if (line.consumed_tokens && *line.consumed_tokens != tokens_after(stretch)) {
    throw_contradiction(line, "ended with", *line.consumed_tokens, tokens_after(stretch),
                        "consumed tokens", "--seq-length");
  }
  if (!line.num_iterations) return;
  if (!order.global_batch_size) {
    check_iterations_by_samples(line, stretch);
    return;
  }
  if (const int64_t num_iterations = RunTimeline::last_iteration_of(*stretch.segment);
      *line.num_iterations != num_iterations) {
    throw_contradiction(line, "is one of", *line.num_iterations, num_iterations, "iterations",
                        order.train_iters
                            ? "--train-iters"
                            : "--train-samples, --global-batch-size and --rampup-batch-size");
  }
}

}  // namespace weft
