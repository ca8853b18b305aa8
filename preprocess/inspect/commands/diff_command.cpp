// weft-data inspect diff tells in what the training data of two runs differs.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/run_record/read_segments.h"
#include "preprocess/inspect/commands/commands.h"
#include "preprocess/inspect/commands/record.h"
#include "preprocess/inspect/lookup/run_difference.h"

namespace weft {
namespace {

constexpr Layout kDifference = {
    "iterations {first_iteration} to {last_iteration}: [[{~is_equal!}all samples are equal]]"
    "[[{different_iterations,} of {~compared,} differ, from iteration {first_different_iteration} "
    "on]]\n[[@reasons:  {~effect}{}\n]]"};

class InspectDiffCommand final : public Command {
 public:
  InspectDiffCommand()
      : Command("inspect diff", "tell in what the training data of two runs differs, and why",
                "weft-data inspect diff checkpoints other") {}

  void declare(OptionSet& options) override {
    options.text("RUN1", runs_[0], "a training run's folder");
    options.text("RUN2", runs_[1], "another one");
    options.integers("--iterations", iterations_, 2,
                     "compare iterations A to B, with B, trained or still to come; without it: "
                     "all that both runs have trained, as their metrics.jsonl tell");
    declare_format(options, format_);
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
    print(difference);
    return 0;
  }

 private:
  void check_last(const std::string& name, const RunTimeline& run) const {
    const std::string refusal = run.refusal_of(iterations_[1]);
    if (!refusal.empty()) throw UsageError(fmt::format("--iterations: {}: {}", name, refusal));
  }

  // Later iterations follow from the arguments, too, but are only planned.
  static int64_t last_trained(const std::string& name, const RunTimeline& run) {
    if (run.last_trained()) return *run.last_trained();
    throw std::runtime_error(
        name +
        ": there is no metrics.jsonl that tells how far the run has come; give --iterations");
  }

  void print(const RunDifference& difference) const {
    const bool is_equal = difference.num_different == 0;
    Record record = {
        {"first_iteration", difference.first_iteration},
        {"last_iteration", difference.last_iteration},
        {"different_iterations", difference.num_different},
        {"first_different_iteration", is_equal ? Record() : Record(difference.first_different)},
        {"reasons", difference.reasons},
        {"~effect", is_equal ? "without effect so far: " : "because of "}};
    if (is_equal) record["~is_equal"] = true;
    record["~compared"] = difference.last_iteration - difference.first_iteration + 1;
    print_record(format_, std::move(record), kDifference);
  }

  std::string runs_[2];
  std::vector<int64_t> iterations_;
  Format format_ = Format::kText;
};

}  // namespace

std::unique_ptr<Command> make_inspect_diff_command() {
  return std::make_unique<InspectDiffCommand>();
}

}  // namespace weft
