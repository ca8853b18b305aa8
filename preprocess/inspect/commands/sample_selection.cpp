#include "preprocess/inspect/commands/sample_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/run_record/sample_query.h"
#include "preprocess/inspect/commands/output.h"

namespace weft {
namespace {

// Returns the lines by their iterations. `given` is a text, or "-" for standard input.
std::vector<LogLine> read_log_lines(const std::string& given) {
  const std::string text = given == "-" ? std::string(std::istreambuf_iterator<char>(std::cin),
                                                      std::istreambuf_iterator<char>())
                                        : given;
  std::vector<LogLine> lines = parse_log_lines(text);
  if (lines.empty()) {
    throw UsageError(
        "--log-line: it has neither 'iteration N/ M |' nor 'validation loss at iteration N'");
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const LogLine& a, const LogLine& b) { return a.iteration < b.iteration; });
  return lines;
}

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

// Throws std::runtime_error if a line of training tells another number of samples, of tokens or of
// iterations than `stretch`, the samples that the run took in the line's iteration: another order,
// and so other text, goes with such numbers. It names both, and what to change. Throws as
// curriculum_rows_of(), too.
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

}  // namespace

void SampleSelection::declare(OptionSet& options) {
  split.declare(options);
  options.integers(
      "--sample-range", sample_range_, 2,
      "samples A to B, without B: A is what the log calls consumed samples before the first one");
  options.integer(
      "--iteration", iteration_,
      "the samples of this iteration of the log (from 1), or of the validation after it", 1);
  options.integers("--iterations", iterations_, 2, "those of iterations A to B, with B");
  options.text("--log-line", log_line_,
               "those of the iterations in these lines of the run's log, as Megatron or weft-train "
               "prints them; - reads standard input");
}

void SampleSelection::validate(OptionSet& options) const {
  if (!sample_range_.empty() + !iterations_.empty() + iteration_.has_value() + !log_line_.empty() !=
      1) {
    options.problem(
        "give one of --sample-range A B, --iteration I, --iterations A B and --log-line LINE");
  }
  if (sample_range_.size() == 2 && sample_range_[0] >= sample_range_[1]) {
    options.problem(
        fmt::format("--sample-range: {} {} holds no sample", sample_range_[0], sample_range_[1]));
  }
  if (iterations_.size() == 2 && (iterations_[0] < 1 || iterations_[0] > iterations_[1])) {
    options.problem(fmt::format("--iterations: {} {} holds no iteration; they are counted from 1",
                                iterations_[0], iterations_[1]));
  }
  if (sample_range_.empty() && split.split == Split::kTest)
    options.problem("the test follows the last iteration: give --sample-range, from 0");
}

std::vector<Stretch> SampleSelection::of_iterations(const RunTimeline& run, int64_t first,
                                                    int64_t last) const {
  const bool is_validation = split.split == Split::kValid;
  if (std::string refusal = run.refusal_of(last); !refusal.empty()) {
    if (is_validation) {
      const std::vector<Stretch> evaluations = run.all(split.split);
      refusal += evaluations.empty() ? "; no evaluation follows any of them"
                                     : fmt::format("; the last evaluation follows iteration {}",
                                                   evaluations.back().iteration);
    }
    throw UsageError(refusal);
  }
  std::vector<Stretch> found = run.of_range(first, last, split.split);
  if (!found.empty()) return found;
  if (first < last) throw UsageError("--iterations: no validation follows any of them");
  const SampleOrder& order = run.segment_of(first).order;
  throw UsageError(
      fmt::format("--iteration {}: no evaluation follows it (--eval-iters {}, --eval-interval {})",
                  first, order.eval_iters, order.eval_interval));
}

std::vector<Stretch> SampleSelection::select(const RunTimeline& run) const {
  if (!sample_range_.empty())
    return run.of_samples(sample_range_[0], sample_range_[1], split.split);
  if (iteration_) return of_iterations(run, *iteration_, *iteration_);
  if (!iterations_.empty()) return of_iterations(run, iterations_[0], iterations_[1]);
  const bool is_validation = split.split == Split::kValid;
  std::vector<Stretch> selected;
  for (const LogLine& line : read_log_lines(log_line_)) {
    if (line.is_validation != is_validation) {
      throw UsageError(fmt::format("--log-line: a line of {} goes with --split-name {}",
                                   line.is_validation ? "validation" : "training",
                                   line.is_validation ? "valid" : "train"));
    }
    selected.push_back(stretch_of_line(run, line));
  }
  return selected;
}

Stretch SampleSelection::stretch_of_line(const RunTimeline& run, const LogLine& line) const {
  // Without a batch size the line alone tells the samples.
  const RunSegment& newest = run.segments().back();
  const bool tells_samples = line.consumed_samples && line.global_batch_size &&
                             *line.consumed_samples >= *line.global_batch_size;
  const Stretch stretch = !line.is_validation && !newest.order.global_batch_size && tells_samples
                              ? Stretch{.segment = &newest,
                                        .first = *line.consumed_samples - *line.global_batch_size,
                                        .last = *line.consumed_samples}
                              : of_iterations(run, line.iteration, line.iteration).front();
  if (!line.is_validation) check_log_line(line, stretch);
  return stretch;
}

const TakenSamples& SampleSelection::find_samples(RunSamples& samples, Stretch& stretch) const {
  // An empty name means the only group, whatever it is called.
  const std::string& group =
      find_group(stretch.segment->order.blends, split.split, split.group).name;
  const TakenSamples* taken = samples.find(*stretch.segment, split.split, group);
  if (!taken) throw UsageError("the test split has no samples in this run");
  // The index often holds more samples, from the last epoch that it needs. No iteration takes them.
  int64_t end = samples.run().end_of_samples(*stretch.segment, split.split);
  const bool is_whole_evaluation = stretch.segment->order.full_validation &&
                                   split.split == Split::kValid && sample_range_.empty();
  if (is_whole_evaluation) stretch.last = std::min(stretch.last, taken->dataset().end());
  // Evaluations go on where those before a resumption ended, also where their later number asks for
  // fewer samples: they take what the dataset has.
  if (split.split == Split::kValid && sample_range_.empty()) end = taken->dataset().end();
  if (taken->are_whole()) end = std::min(end, taken->dataset().end());
  if (stretch.last <= end && taken->row(stretch.last - 1).sample < taken->dataset().end())
    return *taken;
  throw UsageError(fmt::format("samples {} to {} are asked for, but the run takes only {} from {}",
                               stretch.first, stretch.last, end, split.name()));
}

void SampleSelection::tell_what_is_to_come(const std::vector<Stretch>& selected,
                                           std::optional<int64_t> last_trained) {
  for (const Stretch& stretch : selected) {
    const auto last = PlaceFinder(stretch).place_of(stretch.last - 1).iteration;
    if (last && print_if_to_come(*last, last_trained)) return;
  }
}

std::string SampleSelection::description() const {
  std::string what;
  if (!sample_range_.empty()) {
    what = fmt::format("{} to {} (without it)", sample_range_[0], sample_range_[1]);
  } else if (iteration_) {
    what = fmt::format("iteration {}", *iteration_);
  } else if (!iterations_.empty()) {
    what = fmt::format("iterations {} to {}", iterations_[0], iterations_[1]);
  } else {
    what = "the log's lines";
  }
  return what + " of " + split.name();
}

}  // namespace weft
