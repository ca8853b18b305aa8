#include "preprocess/inspect/losses/run_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/run_record/read_segments.h"

namespace weft {

RunLosses::RunLosses(const std::filesystem::path& run_folder)
    : timeline_(read_run(run_folder)), steps_(read_logged_steps(run_folder)) {
  // The folder may hold steps of another run, up to the iteration with which this one began.
  std::erase_if(steps_, [&](const LoggedStep& step) {
    return step.iteration <= timeline_.segments().front().resumed.iteration;
  });
  const std::filesystem::path path = run_folder / kSampleLossesName;
  if (std::filesystem::exists(path)) losses_.emplace(path);
}

const SampleLossReader& RunLosses::reader() const {
  if (losses_) return *losses_;
  throw LossesNotKept(
      fmt::format("the run kept no losses of samples (there is no {})", kSampleLossesName));
}

std::vector<std::optional<SampleLoss>> RunLosses::read(int64_t first, int64_t last) const {
  return reader().read(first, last);
}

std::optional<JudgedBatch> RunLosses::judge(int64_t iteration, const SpikeOptions& options) const {
  const auto at = std::lower_bound(
      steps_.begin(), steps_.end(), iteration,
      [](const LoggedStep& step, int64_t number) { return step.iteration < number; });
  if (at == steps_.end() || at->iteration != iteration) return std::nullopt;
  timeline_.check_step(*at);
  return judge_samples(steps_, static_cast<size_t>(at - steps_.begin()), options, reader());
}

Suspects RunLosses::suspects_of(int64_t iteration, const SpikeOptions& options) const {
  // A loss that is NaN is worse than every number.
  const auto stand_out = [](const JudgedBatch& batch) {
    return batch.has_usual && !(batch.samples.front().z < kStandsOut);
  };
  std::optional<JudgedBatch> batch = judge(iteration, options);
  if (!batch) {
    throw std::invalid_argument(
        fmt::format("metrics.jsonl does not tell of iteration {}", iteration));
  }
  Suspects own{.iteration = iteration, .batch = std::move(*batch)};
  own.stand_out = stand_out(own.batch);
  if (own.stand_out || iteration == timeline_.segments().front().resumed.iteration + 1) return own;
  if (auto before = judge(iteration - 1, options); before && stand_out(*before))
    return {.iteration = iteration - 1, .batch = std::move(*before), .stand_out = true};
  return own;
}

}  // namespace weft
