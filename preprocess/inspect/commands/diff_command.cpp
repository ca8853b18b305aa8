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
    declare_format(options, as_json_);
  }
  void validate(OptionSet& options) const override {
    if (runs_[0].empty() || runs_[1].empty()) options.problem("give two folders of training runs");
    if (iterations_.size() == 2 && (iterations_[0] < 1 || iterations_[0] > iterations_[1]))
      options.problem("--iterations: they are counted from 1, and the first comes before the last");
  }

  int run(const OptionSet&) override {
    const RunTimeline first = read_run(runs_[0]), second = read_run(runs_[1]);
    const bool has_range = !iterations_.empty();
    if (has_range) {
      check_last(runs_[0], first);
      check_last(runs_[1], second);
    }
    const RunDifference difference = compare_runs(
        first, second, has_range ? iterations_[0] : 1,
        has_range ? iterations_[1]
                  : std::min(last_trained(runs_[0], first), last_trained(runs_[1], second)));
    as_json_ ? print_json(difference) : print_text(difference);
    return 0;
  }

 private:
  void check_last(const std::string& name, const RunTimeline& run) const {
    const std::string refusal = run.refusal_of(iterations_[1]);
    if (!refusal.empty())
      throw std::invalid_argument(fmt::format("--iterations: {}: {}", name, refusal));
  }

  // Later iterations follow from the arguments, too, but are only planned.
  static int64_t last_trained(const std::string& name, const RunTimeline& run) {
    if (run.last_trained()) return *run.last_trained();
    throw std::runtime_error(
        name +
        ": there is no metrics.jsonl that tells how far the run has come; give --iterations");
  }

  static void print_text(const RunDifference& difference) {
    const bool is_equal = difference.num_different == 0;
    const std::string range =
        fmt::format("iterations {} to {}", difference.first_iteration, difference.last_iteration);
    if (is_equal) {
      fmt::print("{}: all samples are equal\n", range);
    } else {
      fmt::print("{}: {} of {} differ, from iteration {} on\n", range,
                 grouped(difference.num_different),
                 grouped(difference.last_iteration - difference.first_iteration + 1),
                 difference.first_different);
    }
    for (const std::string& reason : difference.reasons)
      fmt::print("  {}{}\n", is_equal ? "without effect so far: " : "because of ",
                 escape_for_terminal(reason));
  }

  static void print_json(const RunDifference& difference) {
    print_line({{"first_iteration", difference.first_iteration},
                {"last_iteration", difference.last_iteration},
                {"different_iterations", difference.num_different},
                {"first_different_iteration",
                 difference.num_different == 0 ? Json() : Json(difference.first_different)},
                {"reasons", difference.reasons}});
  }

  std::string runs_[2];
  std::vector<int64_t> iterations_;
  bool as_json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_inspect_diff_command() {
  return std::make_unique<InspectDiffCommand>();
}

}  // namespace weft
