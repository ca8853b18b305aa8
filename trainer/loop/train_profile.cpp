// A run with --profile-steps tells where the time of its steps goes.
#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/loop/train_loop.h"

namespace weft {

// Reads the ceilings now, so that a file of another kind ends the run before it has begun.
void TrainLoop::start_profiler(ProfilingBackend& backend) {
  const StepRange steps = *config_.profiled_steps();
  if (steps.last > schedule_.num_iterations()) {
    throw std::invalid_argument(fmt::format("--profile-steps {}: this run ends with iteration {}",
                                            config_.profile_steps, schedule_.num_iterations()));
  }
  // A job that requeues itself has the same command line when its profile is done.
  if (steps.first <= iteration()) {
    print(
        fmt::format("WARNING: --profile-steps {} begins before iteration {}, where this run goes "
                    "on: nothing is profiled\n",
                    config_.profile_steps, iteration() + 1));
    return;
  }
  const std::string algorithms = algorithm_cache(config_);
  if (!algorithms.empty()) {
    ceilings_ =
        find_ceilings(ceilings_file(algorithms), ceilings_id(backend), backend.description());
  }
  profiler_ = std::make_unique<StepProfiler>(backend, groups_, steps);
}

// The first rank prints and writes for all.
void TrainLoop::report_profile() {
  const RunLog::Pause pause(*log_);
  const RankProfile profile = profiler_->finish(ranks_.rank(), ceilings_);
  const std::vector<std::string> ranks = ranks_.gather(to_json_text(profile));
  if (!is_first_rank()) return;
  std::string text = to_text(profile);
  if (ranks.size() > 1) text += to_text_of_ranks(ranks);
  log_->print(text);
  const std::string folder = config_.run_folder();
  if (!folder.empty()) {
    const std::filesystem::path path =
        std::filesystem::path(folder) /
        fmt::format("profile_{}_{}.json", profile.first_step, profile.last_step);
    write_file_atomically(path, to_json_document(ranks));
    log_->print(fmt::format("  all lines of all ranks: {}\n", path.string()));
  }
}

}  // namespace weft
