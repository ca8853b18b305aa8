// The losses of a run as its folder tells them: of its iterations (metrics.jsonl), of its samples
// (sample_losses.bin), and which samples an iteration took (run_manifest.json). Where these
// contradict each other, nothing is told.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "indexed_dataset/run_record/run_timeline.h"
#include "preprocess/inspect/losses/spikes.h"

namespace weft {

// Samples that may have caused a jump, or that stand out without one.
struct Suspects {
  int64_t iteration = 0;
  JudgedBatch batch;
  bool stand_out = false;  // else all samples of the iteration are much alike
  // So many samples of the iteration stand out at once that the update before it is the likely
  // cause (JudgedBatch::is_unstable()).
  bool is_unstable = false;
};

class RunLosses {
 public:
  // Throws as read_logged_steps(), read_run() and SampleLossReader.
  explicit RunLosses(const std::filesystem::path& run_folder);

  // The steps of metrics.jsonl that this run has trained: those behind the checkpoint it began
  // with.
  const std::vector<LoggedStep>& steps() const { return steps_; }
  const RunTimeline& timeline() const { return timeline_; }
  // Returns the step of an iteration; null if metrics.jsonl does not tell of it.
  const LoggedStep* find_step(int64_t iteration) const;
  // Returns the judged samples of an iteration; nothing if metrics.jsonl does not tell of it.
  // Throws as judge_samples() and RunTimeline::check_step().
  std::optional<JudgedBatch> judge(int64_t iteration, const SpikeOptions& options) const;
  // Returns the samples behind a jump at this iteration of steps(): its own, or those of the one
  // before, whose update made the weights, if none of its own stands out but some of those do. An
  // iteration behind an unstable one is explained by that one. Throws as judge().
  Suspects suspects_of(int64_t iteration, const SpikeOptions& options) const;
  // Returns the iterations with a sample that is options.threshold above what is usual, the largest
  // first, each with these samples alone: without `jumps`, which are told anyway, and without those
  // that an unstable one explains.
  // None where the run kept no losses. `on_error` gets what stands in the way of a look at some of
  // the iterations. Throws nothing else.
  std::vector<Suspects> standing_out(
      const SpikeOptions& options, const std::set<int64_t>& jumps, int num_threads,
      const std::function<void(const std::exception&)>& on_error) const;
  // Returns the losses of samples [first, last), as SampleLossReader::read(). Throws LossesNotKept
  // if the run kept none.
  std::vector<std::optional<SampleLoss>> read(int64_t first, int64_t last) const;

 private:
  const SampleLossReader& reader() const;
  // Returns the judged samples of the iteration before; nothing where none are known.
  std::optional<JudgedBatch> judge_before(int64_t iteration, const SpikeOptions& options) const;

  RunTimeline timeline_;
  std::vector<LoggedStep> steps_;
  std::optional<SampleLossReader> losses_;  // if there is such a file
};

}  // namespace weft
