#include "preprocess/inspect/losses/run_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/parallel_for.h"
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

const LoggedStep* RunLosses::find_step(int64_t iteration) const {
  const auto at = std::ranges::lower_bound(steps_, iteration, {}, &LoggedStep::iteration);
  return at == steps_.end() || at->iteration != iteration ? nullptr : &*at;
}

std::optional<JudgedBatch> RunLosses::judge(int64_t iteration, const SpikeOptions& options) const {
  const LoggedStep* step = find_step(iteration);
  if (!step) return std::nullopt;
  timeline_.check_step(*step);
  return judge_samples(steps_, static_cast<size_t>(step - steps_.data()), options, reader());
}

std::optional<JudgedBatch> RunLosses::judge_before(int64_t iteration,
                                                   const SpikeOptions& options) const {
  if (iteration == timeline_.segments().front().resumed.iteration + 1) return std::nullopt;
  try {
    return judge(iteration - 1, options);
  } catch (const LossesNotKept&) {
    return std::nullopt;
  }
}

Suspects RunLosses::suspects_of(int64_t iteration, const SpikeOptions& options) const {
  std::optional<JudgedBatch> batch = judge(iteration, options);
  if (!batch) {
    throw UsageError(fmt::format("metrics.jsonl does not tell of iteration {}", iteration));
  }
  const auto suspects_in = [](int64_t of_iteration, JudgedBatch judged) {
    Suspects suspects{.iteration = of_iteration, .batch = std::move(judged)};
    suspects.stand_out = suspects.batch.num_standing_out() > 0;
    suspects.is_unstable = suspects.batch.is_unstable();
    return suspects;
  };
  Suspects own = suspects_in(iteration, std::move(*batch));
  if (own.is_unstable) return own;
  std::optional<JudgedBatch> before = judge_before(iteration, options);
  if (before && (before->is_unstable() || (!own.stand_out && before->num_standing_out() > 0)))
    return suspects_in(iteration - 1, std::move(*before));
  return own;
}

std::vector<Suspects> RunLosses::standing_out(
    const SpikeOptions& options, const std::set<int64_t>& jumps, int num_threads,
    const std::function<void(const std::exception&)>& on_error) const {
  if (!losses_) return {};
  constexpr size_t kBlock = 1024;
  std::vector<Suspects> all;
  std::mutex mutex;  // of what follows
  const auto look = [&](size_t at) {
    const int64_t iteration = steps_[at].iteration;
    if (jumps.contains(iteration)) return;
    Suspects suspects = suspects_of(iteration, options);
    if (suspects.is_unstable || suspects.iteration != iteration ||
        suspects.batch.num_standing_out(options.threshold) == 0)
      return;
    std::erase_if(suspects.batch.samples, [&](const JudgedSample& sample) {
      return !sample.stands_out(options.threshold);
    });
    suspects.stand_out = true;  // by options.threshold, which may be less than kStandsOut
    const std::lock_guard lock(mutex);
    all.push_back(std::move(suspects));
  };
  // The first error of a block is told. One iteration that cannot be judged does not hide others.
  const auto look_at_block = [&](size_t first, size_t last) {
    std::exception_ptr first_error;
    for (const size_t at : find_candidates(steps_, first, last, options.threshold, *losses_)) {
      try {
        look(at);
      } catch (const LossesNotKept&) {  // a run may keep those of some of its parts only
      } catch (const std::exception&) {
        if (!first_error) first_error = std::current_exception();
      }
    }
    if (first_error) std::rethrow_exception(first_error);
  };
  const auto num_blocks = static_cast<int64_t>((steps_.size() + kBlock - 1) / kBlock);
  parallel_for(num_blocks, num_threads, [&](int64_t block) {
    const size_t first = static_cast<size_t>(block) * kBlock;
    try {
      look_at_block(first, std::min(first + kBlock, steps_.size()));
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex);
      on_error(error);
    }
  });
  std::sort(all.begin(), all.end(), [](const Suspects& a, const Suspects& b) {
    const double z_of_a = a.batch.samples.front().z, z_of_b = b.batch.samples.front().z;
    return std::pair(-z_of_a, a.iteration) < std::pair(-z_of_b, b.iteration);
  });
  return all;
}

}  // namespace weft
