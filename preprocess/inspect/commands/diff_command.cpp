// weft-data inspect diff tells in what the training data of two runs differs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/output.h"
#include "preprocess/inspect/lookup/run_difference.h"
#include "preprocess/inspect/lookup/timeline.h"
#include "preprocess/inspect/text/prefix_options.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

class InspectDiffCommand final : public Command {
 public:
  InspectDiffCommand()
      : Command("inspect diff", "tell in what the training data of two runs differs, and why") {}

  void declare(OptionSet& options) override {
    options.text("RUN1", runs_[0], "a training run's folder");
    options.text("RUN2", runs_[1], "another one");
    options.integers("--iterations", iterations_, 2,
                     "compare iterations A to B, with B, trained or still to come; without it: "
                     "all that both runs have trained, as their metrics.jsonl tell");
    options.integer("--top", num_shown_, "how many iterations that differ are shown", 1);
    threads_.declare(options);
    declare_format(options, as_json_);
  }
  void validate(OptionSet& options) const override {
    if (runs_[0].empty() || runs_[1].empty()) options.problem("give two folders of training runs");
    if (iterations_.size() == 2 && (iterations_[0] < 1 || iterations_[0] > iterations_[1]))
      options.problem("--iterations: they are counted from 1, and the first comes before the last");
  }

  int run(const OptionSet&) override {
    const std::vector<RunSegment> first = read_run_segments(runs_[0]),
                                  second = read_run_segments(runs_[1]);
    RunSamples a(first), b(second);
    const bool has_range = !iterations_.empty();
    if (has_range) {
      check_last(runs_[0], first);
      check_last(runs_[1], second);
    }
    const RunDifference difference = compare_runs(
        a, b, has_range ? iterations_[0] : 1,
        has_range ? iterations_[1]
                  : std::min(last_trained(runs_[0], first), last_trained(runs_[1], second)),
        num_shown_, threads_.resolved());
    as_json_ ? print_json(difference) : print_text(difference);
    return 0;
  }

 private:
  void check_last(const std::string& run, const std::vector<RunSegment>& segments) const {
    const std::string message = words_for_no_iteration(segments, iterations_[1]);
    if (!message.empty())
      throw std::invalid_argument(fmt::format("--iterations: {}: {}", run, message));
  }

  // Later iterations follow from the arguments, too, but are only planned.
  static int64_t last_trained(const std::string& run, const std::vector<RunSegment>& segments) {
    const std::optional<int64_t> last = find_last_trained(run, segments);
    if (last) return *last;
    throw std::runtime_error(
        run + ": there is no metrics.jsonl that tells how far the run has come; give --iterations");
  }

  static std::string text_of(const std::optional<int64_t>& sample) {
    return sample ? std::to_string(*sample) : "none";
  }

  static void print_text(const RunDifference& difference) {
    if (difference.num_different_iterations == 0) {
      fmt::print("iterations {} to {}: all {} samples are equal\n", difference.first_iteration,
                 difference.last_iteration, grouped(difference.num_samples));
      for (const std::string& reason : difference.reasons)
        fmt::print("  without effect so far: {}\n", escape_for_terminal(reason));
      return;
    }
    fmt::print("iterations {} to {}: {} of {} differ, from iteration {} on; {} of {} samples\n",
               difference.first_iteration, difference.last_iteration,
               grouped(difference.num_different_iterations),
               grouped(difference.last_iteration - difference.first_iteration + 1),
               difference.iterations.front().iteration, grouped(difference.num_different_samples),
               grouped(difference.num_samples));
    for (const std::string& reason : difference.reasons)
      fmt::print("  because of {}\n", escape_for_terminal(reason));
    for (const DifferentIteration& one : difference.iterations) {
      fmt::print(
          "  iteration {}: {} of {} samples differ, the first at place {} of the batch: sample {} "
          "and sample {}\n",
          one.iteration, one.num_different, one.num_samples, one.slot_idx, text_of(one.samples[0]),
          text_of(one.samples[1]));
    }
  }

  static void print_json(const RunDifference& difference) {
    Json json = {{"first_iteration", difference.first_iteration},
                 {"last_iteration", difference.last_iteration},
                 {"samples", difference.num_samples},
                 {"different_iterations", difference.num_different_iterations},
                 {"different_samples", difference.num_different_samples},
                 {"reasons", difference.reasons},
                 {"iterations", Json::array()}};
    for (const DifferentIteration& one : difference.iterations) {
      Json& entry = json["iterations"].emplace_back(Json{{"iteration", one.iteration},
                                                         {"different_samples", one.num_different},
                                                         {"samples", one.num_samples},
                                                         {"place", one.slot_idx}});
      for (const auto& sample : one.samples)
        entry["first"].push_back(sample ? Json(*sample) : Json());
    }
    print_line(json);
  }

  std::string runs_[2];
  std::vector<int64_t> iterations_;
  ThreadsOption threads_;
  int64_t num_shown_ = 10;
  bool as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_diff_command() {
  return std::make_unique<InspectDiffCommand>();
}

}  // namespace weft
